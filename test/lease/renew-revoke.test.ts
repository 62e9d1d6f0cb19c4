import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import type { Any } from '../support/wire.js';
import { at, fill, get, hold, refs, unique, watch } from './support.js';

let world: World;
let daemon: TestDaemon;
beforeAll(async () => {
  world = await startWorld();
  daemon = world.daemon;
});
afterAll(() => world.stop());

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const ends = (item: Any): number => Date.parse(item.endsAt) - Date.now();

describe('lease.renew', () => {
  test('R3 A11: a holding with a lease of its own lives as long as its holder renews it, and no longer', async () => {
    const watcher = await watch(daemon);
    const wire = await daemon.session();
    const queue = await fill(wire, 2, { leaseMs: 700 });
    const [kept, left] = await hold(wire, queue);
    for (let i = 0; i < 8; i++) {
      await wait(200);
      const { leases } = await wire.call('lease.renew', {
        leases: [{ lease: `task:${kept.task}`, fence: kept.fence }],
      });
      expect(ends(leases[0])).toBeGreaterThan(400);
    }
    const lapsed = await watcher.event('task.retried', left.task);
    expect(lapsed.event.data).toMatchObject({ reason: 'leaseLapsed', attempt: 1, state: 'ready' });
    expect(await wire.next((line) => line.op === 'revoked')).toEqual({
      op: 'revoked',
      tasks: [{ task: left.task, fence: left.fence, reason: 'leaseLapsed' }],
    });
    expect((await wire.call('queue.complete', { tasks: refs([kept]) })).tasks).toEqual([{ state: 'completed' }]);
    const late = await wire.call('queue.complete', { tasks: refs([left]) });
    expect(late.tasks[0].error).toMatchObject({ code: 'STALE_FENCE', details: { yours: left.fence } });
    expect(late.tasks[0].error.details.current).toBeGreaterThan(left.fence);
  });

  test('[10] an own lease ends on time although the session lives: leaseLapsed, charged', async () => {
    const watcher = await watch(daemon);
    const wire = await daemon.session();
    const queue = await fill(wire, 1, { leaseMs: 400, maxAttempts: 1 });
    const [task] = await hold(wire, queue);
    const claimed = await watcher.event('task.claimed', task.task);
    const dead = await watcher.event('task.dead', task.task);
    expect(at(dead) - at(claimed)).toBeGreaterThanOrEqual(400);
    expect(at(dead) - at(claimed)).toBeLessThan(1500);
    expect(dead.event.data).toMatchObject({ reason: 'leaseLapsed', error: { code: 'WORKER_LOST' } });
  });

  test('another lease for once, and its own again', async () => {
    const wire = await daemon.session();
    const [task] = await hold(wire, await fill(wire, 1, { leaseMs: 5000 }));
    const renew = async (more: Any = {}): Promise<number> => {
      const { leases } = await wire.call('lease.renew', {
        leases: [{ lease: `task:${task.task}`, fence: task.fence, ...more }],
      });
      return ends(leases[0]);
    };
    expect(await renew({ leaseMs: 50_000 })).toBeGreaterThan(48_000);
    const own = await renew();
    expect(own).toBeGreaterThan(3000);
    expect(own).toBeLessThanOrEqual(5000);
    expect(
      (await wire.call('lease.list', { session: wire.opened.session, kind: 'task' })).leases[0].endsAt,
    ).toBeDefined();
  });

  test('each item for itself: sessions, tasks with and without a lease, what is stale, unknown, somebody else', async () => {
    const wire = await daemon.session({ ttlMs: 20_000 });
    const other = await daemon.session();
    const [own] = await hold(wire, await fill(wire, 1, { leaseMs: 9000 }));
    const [plain] = await hold(wire, await fill(wire, 1));
    const [foreign] = await hold(other, await fill(other, 1));
    const me = (await wire.call('lease.list', { session: wire.opened.session, kind: 'session' })).leases[0];
    const leases = [
      { lease: `task:${own.task}`, fence: own.fence },
      { lease: `task:${plain.task}`, fence: plain.fence },
      { lease: me.lease, fence: me.fence },
      { lease: `task:${own.task}`, fence: own.fence - 1 },
      { lease: `task:${plain.task}`, fence: plain.fence, leaseMs: 1000 },
      { lease: 'task:nobody', fence: 1 },
      { lease: `task:${foreign.task}`, fence: foreign.fence },
      { lease: me.lease, fence: me.fence - 1 },
      { lease: `session:${other.opened.session}`, fence: 1 },
      { lease: me.lease, fence: me.fence, leaseMs: 1000 },
      { lease: 'lock:none', fence: 1 },
    ];
    const results = (await wire.call('lease.renew', { leases })).leases;
    expect(results.map((item: Any) => item.error?.code ?? 'ok')).toEqual([
      'ok',
      'ok',
      'ok',
      'STALE_FENCE',
      'INVALID',
      'NOT_FOUND',
      'STALE_FENCE',
      'STALE_FENCE',
      'NOT_FOUND',
      'INVALID',
      'NOT_FOUND',
    ]);
    expect(ends(results[0])).toBeLessThanOrEqual(9000);
    for (const i of [1, 2]) expect(Math.abs(ends(results[i]) - 20_000)).toBeLessThan(2000);
    expect(results[3].error.details).toEqual({ yours: own.fence - 1, current: own.fence });
    expect(results[7].error.details).toEqual({ yours: me.fence - 1, current: me.fence });
  });

  test('a thousand in one request, in their order', async () => {
    const wire = await daemon.session();
    const queue = await fill(wire, 500, { leaseMs: 60_000 });
    const tasks: Any[] = [];
    for (let i = 0; i < 5; i++) tasks.push(...(await hold(wire, queue)));
    const leases = tasks.flatMap(({ task, fence }) => [
      { lease: `task:${task}`, fence },
      { lease: `task:${task}`, fence: fence + 1 },
    ]);
    const results = (await wire.call('lease.renew', { leases })).leases;
    expect(results.map((item: Any) => item.error?.code ?? 'ok')).toEqual(
      leases.map((_, i) => (i % 2 ? 'STALE_FENCE' : 'ok')),
    );
    await wire.call('session.close');
  });

  test.each([
    ['no leases', {}, 'leases'],
    ['none', { leases: [] }, 'leases'],
    ['1001', { leases: Array(1001).fill({ lease: 'task:t', fence: 1 }) }, 'leases'],
    ['no fence', { leases: [{ lease: 'task:t' }] }, 'leases[0].fence'],
    ['fence negative', { leases: [{ lease: 'task:t', fence: -1 }] }, 'leases[0].fence'],
    ['fence a string', { leases: [{ lease: 'task:t', fence: '1' }] }, 'leases[0].fence'],
    ['fence beyond 2^53', { leases: [{ lease: 'task:t', fence: 2 ** 53 }] }, 'leases[0].fence'],
    ['kind unknown', { leases: [{ lease: 'thing:t', fence: 1 }] }, 'leases[0].lease'],
    ['id empty', { leases: [{ lease: 'task:', fence: 1 }] }, 'leases[0].lease'],
    ['no colon', { leases: [{ lease: 'task', fence: 1 }] }, 'leases[0].lease'],
    ['id with a control character', { leases: [{ lease: 'task:a\u0000b', fence: 1 }] }, 'leases[0].lease'],
    ['leaseMs 0', { leases: [{ lease: 'task:t', fence: 1, leaseMs: 0 }] }, 'leases[0].leaseMs'],
    [
      'leaseMs beyond 366 days',
      { leases: [{ lease: 'task:t', fence: 1, leaseMs: 366 * 86_400_000 + 1 }] },
      'leases[0].leaseMs',
    ],
    ['an unknown field', { leases: [{ lease: 'task:t', fence: 1, x: 1 }] }, 'leases[0].x'],
  ])('refuses the whole request: %s', async (_, params: Any, path) => {
    const wire = await daemon.session();
    expect(await wire.refused('lease.renew', params)).toMatchObject({ code: 'BAD_REQUEST', path });
  });
});

describe('lease.revoke', () => {
  test('[9] of a task: charged, back at once in its old place, the holder is told and fenced out', async () => {
    const watcher = await watch(daemon);
    const [wire, operator] = [await daemon.session({ agent: 'holder' }), await daemon.session({ agent: 'operator' })];
    const queue = await fill(wire, 3);
    const [first] = await hold(wire, queue, { count: 1 });
    expect(await operator.call('lease.revoke', { lease: `task:${first.task}`, reason: 'stuck "again"\n' })).toEqual({});
    const { event } = await watcher.event('lease.revoked', `task:${first.task}`);
    expect(event.data).toEqual({
      lease: `task:${first.task}`,
      task: first.task,
      session: wire.opened.session,
      agent: 'holder',
      fence: first.fence,
      reason: 'stuck "again"\n',
    });
    expect((await watcher.event('task.retried', first.task)).event.data).toMatchObject({
      reason: 'revoked',
      attempt: 1,
      state: 'ready',
    });
    expect(await wire.next((line) => line.op === 'revoked')).toEqual({
      op: 'revoked',
      tasks: [{ task: first.task, fence: first.fence, reason: 'revoked' }],
    });
    const late = await wire.call('queue.complete', { tasks: refs([first]) });
    expect(late.tasks[0].error.code).toBe('STALE_FENCE');
    const [again] = await hold(operator, queue, { count: 1 });
    expect(again).toMatchObject({ task: first.task, attempt: 2 });
    expect(await operator.refused('lease.revoke', { lease: `task:${queue}.2`, reason: '' })).toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  test('of the last attempt: dead with WORKER_LOST', async () => {
    const wire = await daemon.session();
    const [task] = await hold(wire, await fill(wire, 1, { maxAttempts: 1 }));
    await wire.call('lease.revoke', { lease: `task:${task.task}`, reason: 'r' });
    expect(await get(wire, task.task)).toMatchObject({ state: 'dead', error: { code: 'WORKER_LOST' }, attempt: 1 });
  });

  test('[8] of a session: it ends at once, its holder is told and keeps the socket', async () => {
    const watcher = await watch(daemon);
    const [wire, operator] = [await daemon.session({ agent: unique('victim') }), await daemon.session()];
    const { session } = wire.opened;
    const queue = await fill(wire, 1);
    const [task] = await hold(wire, queue);
    const me = (await wire.call('lease.list', { session, kind: 'session' })).leases[0];
    await operator.call('lease.revoke', { lease: `session:${session}`, reason: 'gone mad' });
    expect(await wire.next((line) => line.op === 'lost')).toEqual({
      op: 'lost',
      kind: 'session',
      name: session,
      reason: 'revoked',
    });
    expect((await watcher.event('lease.revoked', `session:${session}`)).event.data).toMatchObject({
      lease: `session:${session}`,
      session,
      fence: me.fence,
      reason: 'gone mad',
    });
    expect((await watcher.event('session.lost', session)).event.data).toMatchObject({ session, reason: 'revoked' });
    expect((await watcher.event('task.retried', task.task)).event.data).toMatchObject({
      reason: 'sessionLost',
      session,
      attempt: 1,
    });
    // What a lost session may still ask, until it opens a new one on the same socket.
    for (const [op, params] of [
      ['ping', {}],
      ['queue.enqueue', { queue, tasks: [{ payload: 1 }] }],
      ['queue.claim', { queue }],
      ['queue.work', { queue, credit: 1 }],
      ['session.close', {}],
      ['lease.revoke', { lease: 'task:x', reason: '' }],
    ] as const) {
      expect([op, (await wire.refused(op, params)).code]).toEqual([op, 'SESSION_LOST']);
    }
    const stale = { code: 'STALE_FENCE', details: { yours: task.fence, current: expect.any(Number) } };
    for (const [op, params] of [
      ['queue.complete', { tasks: refs([task]) }],
      ['queue.fail', { tasks: [{ ...refs([task])[0], error: { message: 'x' } }] }],
      ['queue.release', { tasks: [{ ...refs([task])[0], reason: 'x' }] }],
    ] as const) {
      const { error } = (await wire.call(op, params)).tasks[0];
      expect(error).toMatchObject(stale);
      expect(error.details.current).toBeGreaterThan(task.fence);
    }
    expect(await wire.refused('queue.progress', { task: task.task, fence: task.fence, progress: 1 })).toMatchObject(
      stale,
    );
    const renewed = await wire.call('lease.renew', {
      leases: [
        { lease: `task:${task.task}`, fence: task.fence },
        { lease: me.lease, fence: me.fence },
      ],
    });
    expect(renewed.leases.map((item: Any) => item.error)).toMatchObject([
      stale,
      { code: 'STALE_FENCE', details: { yours: me.fence, current: 0 } },
    ]);
    const next = await wire.call('session.open', { agent: 'reborn' });
    expect(next.session).not.toBe(session);
    expect((await wire.call('ping', { data: { a: [1, 'x'] } })).data).toEqual({ a: [1, 'x'] });
    expect((await hold(wire, queue))[0]).toMatchObject({ task: task.task, attempt: 2 });
  });

  test('the task of a lost session that was given on already: STALE_FENCE names the newer fence', async () => {
    const [wire, operator] = [await daemon.session(), await daemon.session()];
    const queue = await fill(wire, 1);
    const [mine] = await hold(wire, queue);
    await operator.call('lease.revoke', { lease: `session:${wire.opened.session}`, reason: 'r' });
    const [theirs] = (await operator.call('queue.claim', { queue, waitMs: 3000 })).tasks;
    const late = await wire.call('queue.complete', { tasks: refs([mine]) });
    expect(late.tasks[0].error).toMatchObject({
      code: 'STALE_FENCE',
      details: { yours: mine.fence, current: theirs.fence },
    });
  });

  test.each([
    ['no lease', { reason: 'r' }, 'lease'],
    ['no reason', { lease: 'task:t' }, 'reason'],
    ['reason no string', { lease: 'task:t', reason: 1 }, 'reason'],
    ['reason too long', { lease: 'task:t', reason: 'x'.repeat(1001) }, 'reason'],
    ['lease malformed', { lease: 't', reason: 'r' }, 'lease'],
    ['lease of another type', { lease: 5, reason: 'r' }, 'lease'],
    ['an unknown field', { lease: 'task:t', reason: 'r', force: true }, 'force'],
  ])('refuses: %s', async (_, params: Any, path) => {
    const wire = await daemon.session();
    expect(await wire.refused('lease.revoke', params)).toMatchObject({ code: 'BAD_REQUEST', path });
  });

  test.each(['task:nobody', 'session:nobody', 'lock:l', 'reservation:r', 'once:k'])(
    '%s that nobody holds is NOT_FOUND and tells nothing',
    async (lease) => {
      const wire = await daemon.session();
      const before = await world.redis.client().hget('sb:{default}:meta', 'offset');
      expect(await wire.refused('lease.revoke', { lease, reason: 'r' })).toMatchObject({ code: 'NOT_FOUND' });
      expect(await world.redis.client().hget('sb:{default}:meta', 'offset')).toBe(before);
    },
  );
});
