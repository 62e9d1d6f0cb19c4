import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Any } from '../support/wire.js';
import { fill, hold, unique, watch } from './support.js';

let world: World;
let daemon: TestDaemon;
beforeAll(async () => {
  world = await startWorld({ 'session.ttlMinMs': 200, 'session.ttlMaxMs': 60_000, 'session.graceMs': 400 });
  daemon = world.daemon;
});
afterAll(() => world.stop());

const iso = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const resumeOf = ({ session, key }: Any): Any => ({ session, key });

describe('session.open', () => {
  test('opens with the shape of the contract and its defaults', async () => {
    const wire = await daemon.session({ agent: 'a' });
    expect(wire.opened).toEqual({
      session: expect.stringMatching(/^[\w-]{16}$/),
      key: expect.stringMatching(/^[\w-]{32}$/),
      ttlMs: 15_000,
      graceMs: 400,
      resumed: false,
      position: expect.stringMatching(/^\w+:\d+$/),
      holdings: [],
    });
  });

  test('tells it in the feed, with tenant and labels, and never the key', async () => {
    const watcher = await watch(daemon);
    const labels = { zone: 'eu "1"\n\t', ключ: '' };
    const { opened } = await daemon.session({ agent: 'läb "el"', tenant: 't1', labels, ttlMs: 5000 });
    const { event } = await watcher.event('session.opened', opened.session);
    expect(event.data).toEqual({ session: opened.session, agent: 'läb "el"', tenant: 't1', labels });
    expect(JSON.stringify(watcher.lines)).not.toContain(opened.key);
    const stored = await world.redis.client().hgetall(`sb:{default}:session:${opened.session}`);
    expect(JSON.stringify(stored)).not.toContain(opened.key);
    expect(stored).toMatchObject({ agent: 'läb "el"', tenant: 't1', ttlMs: '5000' });
  });

  test('position is the head: a tail from there sees everything after the open and nothing before', async () => {
    const wire = await daemon.session({ agent: unique('a') });
    const watcher = await daemon.wire();
    await watcher.call('feed.subscribe', { types: ['session.>'], from: wire.opened.position });
    const next = await daemon.session({ agent: unique('a') });
    await watcher.event('session.opened', next.opened.session);
    expect(watcher.events().some(({ event }) => event.subject === wire.opened.session)).toBe(false);
  });

  test('ttl out of bounds is BAD_REQUEST and never clamped; the bounds themselves are fine', async () => {
    const wire = await daemon.wire();
    for (const ttlMs of [199, 60_001, 1]) {
      expect(await wire.refused('session.open', { agent: 'a', ttlMs })).toMatchObject({
        code: 'BAD_REQUEST',
        path: 'ttlMs',
      });
    }
    expect(await wire.call('session.open', { agent: 'a', ttlMs: 200 })).toMatchObject({ ttlMs: 200 });
    expect((await daemon.session({ ttlMs: 60_000 })).opened.ttlMs).toBe(60_000);
  });

  const bad: [string, Any, string][] = [
    ['agent missing', {}, 'agent'],
    ['agent no string', { agent: 7 }, 'agent'],
    ['agent empty', { agent: '' }, 'agent'],
    ['agent too long', { agent: 'é'.repeat(101) }, 'agent'],
    ['agent with a control character', { agent: 'a\nb' }, 'agent'],
    ['namespace malformed', { agent: 'a', namespace: 'No!' }, 'namespace'],
    ['tenant empty', { agent: 'a', tenant: '' }, 'tenant'],
    ['ttl zero', { agent: 'a', ttlMs: 0 }, 'ttlMs'],
    ['ttl a fraction', { agent: 'a', ttlMs: 1.5 }, 'ttlMs'],
    ['ttl a string', { agent: 'a', ttlMs: '5000' }, 'ttlMs'],
    [
      '17 labels',
      { agent: 'a', labels: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`l${i}`, ''])) },
      'labels',
    ],
    ['a label too long', { agent: 'a', labels: { l: 'x'.repeat(201) } }, 'labels.l'],
    ['a label no string', { agent: 'a', labels: { l: 1 } }, 'labels.l'],
    ['resume without key', { agent: 'a', resume: { session: 's' } }, 'resume.key'],
    ['resume with more', { agent: 'a', resume: { session: 's', key: 'k', x: 1 } }, 'resume.x'],
    ['an unknown field', { agent: 'a', nope: 1 }, 'nope'],
  ];
  test.each(bad)('refuses: %s; nothing is stored', async (_, params, path) => {
    const before = await world.redis.client().zcard('sb:{default}:sessions');
    const wire = await daemon.wire();
    expect(await wire.refused('session.open', params)).toMatchObject({ code: 'BAD_REQUEST', path });
    expect(await world.redis.client().zcard('sb:{default}:sessions')).toBe(before);
    expect(await wire.refused('queue.claim', { queue: 'q' })).toMatchObject({ code: 'NO_SESSION' });
  });

  test('a second open on a live connection is refused, also in the same message, and makes no session', async () => {
    const agent = unique('twice');
    const wire = await daemon.wire();
    wire.send(
      [
        '{"id":901,"op":"session.open","params":{"agent":"AGENT"}}',
        '{"id":902,"op":"session.open","params":{"agent":"AGENT"}}',
      ]
        .join('\n')
        .replaceAll('AGENT', agent),
    );
    const replies = [await wire.next((line) => line.id === 901), await wire.next((line) => line.id === 902)];
    expect(replies.filter(({ ok }) => ok)).toHaveLength(1);
    expect(replies.find(({ error }) => error)?.error).toMatchObject({ code: 'CONFLICT' });
    expect(await wire.refused('session.open', { agent })).toMatchObject({ code: 'CONFLICT' });
    const { leases } = await wire.call('lease.list', { agent });
    expect(leases).toHaveLength(1);
  });

  test('what is sent with it in one go belongs to the session; behind a refused one there is none', async () => {
    const wire = await daemon.wire();
    const queue = unique('pipelined');
    const lines = [
      { id: 901, op: 'session.open', params: { agent: 'hasty' } },
      { id: 902, op: 'queue.enqueue', params: { queue, tasks: [{ payload: 1 }] } },
      { id: 903, op: 'lock.acquire', params: { name: queue } },
    ];
    wire.send(lines.map((line) => JSON.stringify(line)).join('\n'));
    wire.send(JSON.stringify({ id: 904, op: 'queue.claim', params: { queue } }));
    expect(await wire.next((line) => line.id === 904)).toMatchObject({ ok: { tasks: [{ payload: 1 }] } });
    expect(await wire.next((line) => line.id === 903)).toMatchObject({ ok: { state: 'held' } });
    const other = await daemon.wire();
    other.send('{"id":901,"op":"session.open","params":{"agent":"a","resume":{"session":"none","key":"k"}}}');
    other.send(JSON.stringify({ id: 902, op: 'queue.claim', params: { queue } }));
    expect(await other.next((line) => line.id === 902)).toMatchObject({ error: { code: 'NO_SESSION' } });
    expect(await other.next((line) => line.id === 901)).toMatchObject({ error: { code: 'SESSION_LOST' } });
  });

  test('after session.close the connection may open another', async () => {
    const wire = await daemon.session({ agent: 'again' });
    expect(await wire.call('session.close')).toEqual({ released: 0 });
    const second = await wire.call('session.open', { agent: 'again' });
    expect(second.session).not.toBe(wire.opened.session);
    expect(wire.lines.some(({ op }) => op === 'lost')).toBe(false);
  });
});

describe('resume', () => {
  test('[6a] nothing moves: same session, holdings, lastClose once, a higher binding', async () => {
    const watcher = await watch(daemon);
    const wire = await daemon.session({ agent: 'r', tenant: 'tt', ttlMs: 8000 });
    const queue = await fill(wire, 3, { leaseMs: 30_000 });
    const plain = await fill(wire, 1);
    const tasks = [...(await hold(wire, queue)), ...(await hold(wire, plain))];
    wire.cut();
    const back = await daemon.wire();
    const opened = await back.call('session.open', { agent: 'r', resume: resumeOf(wire.opened) });
    expect(opened).toEqual({
      session: wire.opened.session,
      key: wire.opened.key,
      ttlMs: 8000,
      graceMs: 400,
      resumed: true,
      position: expect.any(String),
      holdings: tasks.map(({ task, fence, queue: of }, i) => ({
        lease: `task:${task}`,
        kind: 'task',
        name: task,
        state: 'held',
        fence,
        queue: of,
        ...(i < 3 ? { endsAt: expect.stringMatching(iso) } : {}),
      })),
      lastClose: expect.anything(),
    });
    expect(opened.lastClose).toEqual({ code: 1006, reason: '', at: expect.stringMatching(iso) });
    const { event } = await watcher.event('session.resumed', wire.opened.session);
    await new Promise((resolve) => setTimeout(resolve, 600)); // beyond the grace of the cut socket
    const done = await back.call('queue.complete', { tasks: tasks.map(({ task, fence }) => ({ task, fence })) });
    expect(done.tasks).toEqual(Array(4).fill({ state: 'completed' }));
    expect(
      watcher.events().filter((line) => line.event.type === 'task.retried' && line.event.data.queue === queue),
    ).toEqual([]);
    back.cut();
    const third = await daemon.wire();
    const again = await third.call('session.open', { agent: 'r', resume: resumeOf(wire.opened) });
    expect(again.holdings).toEqual([]);
    await until(
      async () =>
        watcher
          .events()
          .filter((line) => line.event.type === 'session.resumed' && line.event.subject === wire.opened.session)
          .length === 2,
    );
    const bindings = watcher
      .events()
      .filter((line) => line.event.type === 'session.resumed' && line.event.subject === wire.opened.session)
      .map((line) => line.event.data.binding);
    expect(bindings[0]).toBe(event.data.binding);
    expect(bindings[1]).toBeGreaterThan(bindings[0]);
  });

  test('F3: cut and resumed at once, again and again: every resume succeeds and nothing moves', async () => {
    let wire: Any = await daemon.session({ agent: 'flapping' });
    const { opened } = wire;
    const queue = await fill(wire, 2);
    const tasks = await hold(wire, queue);
    for (let i = 0; i < 60; i++) {
      wire.cut();
      wire = await daemon.wire();
      const { resumed, holdings } = await wire.call('session.open', { agent: 'flapping', resume: resumeOf(opened) });
      expect(resumed).toBe(true);
      expect(holdings.map(({ fence }: Any) => fence)).toEqual(tasks.map(({ fence }) => fence));
    }
    await new Promise((resolve) => setTimeout(resolve, 600)); // no grace of an older socket is left
    expect(
      (await wire.call('queue.complete', { tasks: tasks.map(({ task, fence }) => ({ task, fence })) })).tasks,
    ).toEqual(Array(2).fill({ state: 'completed' }));
  });

  test('the code and reason of the last close are told as they were', async () => {
    const wire = await daemon.session({ agent: 'c' });
    const gone = new Promise((resolve) => wire.socket.once('close', resolve));
    wire.socket.close(4321, 'lunch "break"');
    await gone;
    const back = await daemon.wire();
    await until(
      async () =>
        (await world.redis.client().hexists(`sb:{default}:session:${wire.opened.session}`, 'lastClose')) === 1,
    );
    const { lastClose } = await back.call('session.open', { agent: 'c', resume: resumeOf(wire.opened) });
    expect(lastClose).toEqual({ code: 4321, reason: 'lunch "break"', at: expect.stringMatching(iso) });
  });

  test('a wrong key is BAD_KEY, an unknown or ended session SESSION_LOST; the session does not notice', async () => {
    const wire = await daemon.session({ agent: 'k' });
    const other = await daemon.wire();
    const { session, key } = wire.opened;
    expect(await other.refused('session.open', { agent: 'k', resume: { session, key: `${key}x` } })).toMatchObject({
      code: 'BAD_KEY',
    });
    expect(await other.refused('session.open', { agent: 'k', resume: { session: 'nobody', key } })).toMatchObject({
      code: 'SESSION_LOST',
    });
    expect(
      await other.refused('session.open', { agent: 'k', namespace: 'elsewhere', resume: { session, key } }),
    ).toMatchObject({ code: 'SESSION_LOST' });
    expect(await wire.call('ping')).toMatchObject({ epoch: expect.any(String) });
    await wire.call('session.close');
    expect(await other.refused('session.open', { agent: 'k', resume: { session, key } })).toMatchObject({
      code: 'SESSION_LOST',
    });
    expect(await other.call('session.open', { agent: 'k' })).toMatchObject({ resumed: false });
  });

  test('[7a] on the same daemon: the older socket is closed with 4409 and its late frames do nothing', async () => {
    const wire = await daemon.session({ agent: 'old' });
    const queue = await fill(wire, 1);
    const [task] = await hold(wire, queue);
    const back = await daemon.wire();
    await back.call('session.open', { agent: 'old', resume: resumeOf(wire.opened) });
    wire
      .call('queue.complete', { tasks: [{ task: task.task, fence: task.fence, result: 'late' }] })
      .catch(() => undefined);
    const closed = await wire.until(() => wire.closed);
    expect(closed).toMatchObject({ code: 4409 });
    expect(wire.lines.at(-1)).toMatchObject({ op: 'closed', code: 4409 });
    expect(await back.call('queue.get', { task: task.task })).toMatchObject({ state: 'active', fence: task.fence });
    expect(
      (await back.call('queue.complete', { tasks: [{ task: task.task, fence: task.fence, result: 'new' }] })).tasks,
    ).toEqual([{ state: 'completed' }]);
    expect(await back.call('queue.result', { task: task.task })).toEqual({ state: 'completed', result: 'new' });
  });

  // The story: its only holding was one that nothing stood behind, so the reply showed none, and nobody said that the session
  // had its socket again: it was passed over for as long as that lasted.
  test('with a holding that is none is no less present', async () => {
    const wire = await daemon.session({ agent: 'stale' });
    const { session } = wire.opened;
    const redis = world.redis.client();
    await redis.zadd(`sb:{default}:held:${session}`, 1e15, 'lnone');
    wire.cut();
    const marked = (): Promise<string | null> => redis.hget(`sb:{default}:session:${session}`, 'away');
    await until(async () => (await marked()) === '1');
    const back = await daemon.wire();
    const { holdings } = await back.call('session.open', { agent: 'stale', resume: resumeOf(wire.opened) });
    expect(holdings).toEqual([]);
    await until(async () => (await marked()) === null);
    expect(await redis.zscore('sb:{default}:grace', session)).toBeNull();
  });

  test('more than 1000 holdings: the reply has the first, lease.list all of them', async () => {
    const wire = await daemon.session({ agent: 'many' });
    const queue = unique('many');
    for (let i = 0; i < 12; i++) {
      await wire.call('queue.enqueue', {
        queue,
        tasks: Array.from({ length: 100 }, (_, n) => ({ payload: n, task: `${queue}.${i}.${n}` })),
      });
      await wire.call('queue.claim', { queue, count: 100 });
    }
    const back = await daemon.wire();
    const opened = await back.call('session.open', { agent: 'many', resume: resumeOf(wire.opened) });
    expect(opened.holdings).toHaveLength(1000);
    const names = new Set<string>();
    let pages = 0;
    for (let cursor: string | undefined; pages === 0 || cursor; pages++) {
      const page: Any = await back.call('lease.list', {
        session: wire.opened.session,
        kind: 'task',
        limit: 300,
        ...(cursor ? { cursor } : {}),
      });
      expect(page.leases.length).toBeLessThanOrEqual(300);
      for (const { name } of page.leases) names.add(name);
      cursor = page.cursor;
    }
    expect(names.size).toBe(1200);
    for (const { name } of opened.holdings) expect(names.has(name)).toBe(true);
  });
});
