import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Any } from '../support/wire.js';
import { fill, hold, watch } from './support.js';

let world: World;
let daemon: TestDaemon;
beforeAll(async () => {
  world = await startWorld();
  daemon = world.daemon;
});
afterAll(() => world.stop());

describe('session.close', () => {
  test('[1b] gives everything back at once, charged, and answers how much it was', async () => {
    const watcher = await watch(daemon);
    const wire = await daemon.session({ agent: 'closer' });
    const queue = await fill(wire, 250, { maxAttempts: 2 });
    for (let i = 0; i < 3; i++) await hold(wire, queue);
    expect(await wire.call('session.close')).toEqual({ released: 250 });
    const other = await daemon.session({ agent: 'next' });
    const claimed = await hold(other, queue);
    expect(claimed).toHaveLength(100);
    expect(claimed.every(({ attempt }: Any) => attempt === 2)).toBe(true);
    await watcher.until(
      () =>
        watcher.events().filter(({ event }) => event.type === 'task.retried' && event.data.queue === queue).length ===
        250,
    );
    const closed = await watcher.event('session.closed', wire.opened.session);
    expect(closed.event.data).toEqual({ session: wire.opened.session, agent: 'closer', reason: 'closed' });
    const first = watcher.events().find(({ event }) => event.type === 'task.retried' && event.data.queue === queue);
    expect(first.event.data).toMatchObject({
      reason: 'sessionLost',
      session: wire.opened.session,
      agent: 'closer',
      attempt: 1,
      state: 'ready',
    });
    expect(first.offset).toBeGreaterThan(closed.offset);
    await until(async () => (await world.redis.client().keys(`*${wire.opened.session}*`)).length === 0);
  });

  // The story: what is joined with the requests of others went to Redis behind the end of its session. An agent that said
  // goodbye in the same message as its last results lost them all, and its work was done again.
  test('comes behind what was said before it in the same breath, in a message as in a close of the socket', async () => {
    const admin = await daemon.session();
    const limit = 'last-words';
    const dimensions = { tokens: { amount: 1000, perMs: 600_000 } };
    await admin.call('limit.define', { name: limit, kind: 'window', dimensions });
    for (const how of ['session.close', 'socket']) {
      const wire = await daemon.session();
      const queue = await fill(wire, 4);
      const tasks = (await hold(wire, queue)).map(({ task, fence }: Any) => ({ task, fence }));
      const [one, two, three, four] = tasks as [Any, Any, Any, Any];
      const { reservation } = await wire.call('limit.reserve', { name: limit, cost: { tokens: 100 } });
      const { grant } = await wire.call('lock.acquire', { name: `last-words-${how}` });
      const last: [string, Any][] = [
        ['queue.complete', { tasks: [{ ...one, result: 1 }] }],
        ['queue.fail', { tasks: [{ ...two, error: { message: 'broken' }, retry: false }] }],
        ['queue.release', { tasks: [{ ...three, reason: 'later', afterMs: 60_000 }] }],
        [
          'queue.complete',
          { tasks: [{ ...four, result: 1 }], enqueue: [{ queue, tasks: [{ task: `${queue}-next`, payload: 1 }] }] },
        ],
        ['limit.settle', { reservation, actual: { tokens: 1 } }],
        ['lock.release', { grant }],
        ...(how === 'socket' ? [] : [['session.close', {}] as [string, Any]]),
      ];
      wire.send(last.map(([op, params], i) => JSON.stringify({ id: 1000 + i, op, params })).join('\n'));
      if (how === 'socket') wire.socket.close(1000);
      const states = async (): Promise<string[]> =>
        Promise.all(tasks.map(async ({ task }: Any) => (await admin.call('queue.get', { task })).state));
      await until(async () => !(await states()).includes('active'));
      expect(await states()).toEqual(['completed', 'dead', 'scheduled', 'completed']);
      expect((await admin.call('queue.get', { task: three.task })).refunds).toBe(1);
      if (how === 'socket') continue;
      const reply = await wire.next((line: Any) => line.id === 1000 + last.length - 1);
      expect(reply.ok).toEqual({ released: 0 });
    }
    expect((await admin.call('limit.get', { name: limit })).usage.tokens).toMatchObject({ used: 2, reserved: 0 });
  });

  test('what stands behind it is no part of the session: the next one may be opened in the same message', async () => {
    const wire = await daemon.session();
    const lines = [
      { id: 1000, op: 'session.close' },
      { id: 1001, op: 'lock.acquire', params: { name: 'behind-close' } },
      { id: 1002, op: 'session.open', params: { agent: 'again' } },
      { id: 1003, op: 'lock.acquire', params: { name: 'behind-close' } },
    ];
    wire.send(lines.map((line) => JSON.stringify(line)).join('\n'));
    const [closed, behind, opened, acquired] = await Promise.all(
      lines.map(({ id }) => wire.next((line: Any) => line.id === id)),
    );
    expect(closed.ok).toEqual({ released: 0 });
    expect(behind.error.code).toBe('NO_SESSION');
    expect(opened.ok.resumed).toBe(false);
    expect(acquired.ok.state).toBe('held');
  });

  test('refuses params, and a caller without a session', async () => {
    const wire = await daemon.session();
    expect(await wire.refused('session.close', { session: wire.opened.session })).toMatchObject({
      code: 'BAD_REQUEST',
      path: 'session',
    });
    expect(await (await daemon.wire()).refused('session.close')).toMatchObject({ code: 'NO_SESSION' });
    await wire.call('session.close');
    expect(await wire.refused('session.close')).toMatchObject({ code: 'NO_SESSION' });
  });
});
