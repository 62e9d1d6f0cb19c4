import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { type Any, Wire } from '../support/wire.js';
import { fill, hold, unique } from './support.js';

let world: World;
let daemon: TestDaemon;
let reader: Wire;
beforeAll(async () => {
  world = await startWorld();
  daemon = world.daemon;
  reader = await daemon.wire();
});
afterAll(() => world.stop());

/** All pages; fails when a page is larger than asked for or a cursor does not lead on. */
async function listAll(params: Any): Promise<Any[]> {
  const all: Any[] = [];
  const cursors = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page: Any = await reader.call('lease.list', { ...params, ...(cursor === undefined ? {} : { cursor }) });
    expect(page.leases.length).toBeLessThanOrEqual(params.limit ?? 100);
    all.push(...page.leases);
    if (page.cursor === undefined) return all;
    expect(cursors.has(page.cursor)).toBe(false);
    cursors.add(page.cursor);
    cursor = page.cursor;
  }
}

describe('lease.list', () => {
  test('shows the session, then what it holds', async () => {
    const wire = await daemon.session({ agent: unique('lister'), ttlMs: 9000 });
    const { session } = wire.opened;
    const [own] = await hold(wire, await fill(wire, 1, { leaseMs: 60_000 }));
    const [plain] = await hold(wire, await fill(wire, 1));
    const holder = { session, agent: expect.stringContaining('lister') };
    const { leases } = await reader.call('lease.list', { session });
    expect(leases).toEqual([
      {
        lease: `session:${session}`,
        kind: 'session',
        holder,
        name: session,
        fence: expect.any(Number),
        sinceAt: expect.any(String),
        endsAt: expect.any(String),
      },
      {
        lease: `task:${own.task}`,
        kind: 'task',
        holder,
        name: own.task,
        fence: own.fence,
        sinceAt: expect.any(String),
        endsAt: expect.any(String),
      },
      {
        lease: `task:${plain.task}`,
        kind: 'task',
        holder,
        name: plain.task,
        fence: plain.fence,
        sinceAt: expect.any(String),
      },
    ]);
    expect(Math.abs(Date.parse(leases[0].endsAt) - Date.now() - 9000)).toBeLessThan(3000);
    expect(Math.abs(Date.parse(leases[1].endsAt) - Date.now() - 60_000)).toBeLessThan(3000);
    expect((await reader.call('lease.list', { session, kind: 'session' })).leases).toEqual([leases[0]]);
    expect((await reader.call('lease.list', { session, kind: 'task' })).leases).toEqual(leases.slice(1));
    expect((await reader.call('lease.list', { session, kind: 'lock' })).leases).toEqual([]);
    expect((await reader.call('lease.list', { session, agent: 'somebody else' })).leases).toEqual([]);
    expect((await reader.call('lease.list', { session: 'nobody' })).leases).toEqual([]);
  });

  test('pages of every size give each row once, the own lease of a session included', async () => {
    const wire = await daemon.session({ agent: unique('pager') });
    const { session } = wire.opened;
    const tasks = await hold(wire, await fill(wire, 7));
    const whole = await listAll({ session });
    expect(whole.map(({ name }) => name)).toEqual([session, ...tasks.map(({ task }: Any) => task)]);
    for (const limit of [1, 2, 3, 7, 8, 9]) expect(await listAll({ session, limit })).toEqual(whole);
    for (const limit of [1, 4]) expect((await listAll({ session, kind: 'task', limit })).length).toBe(7);
  });

  test('thousands of sessions: every one exactly once, by agent, and a page in spite of sessions that end meanwhile', async () => {
    // Written as session.open writes them: a thousand sockets would measure the sockets.
    const client = world.redis.client();
    const [seconds, micros] = await client.time();
    const now = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
    const crowd = Array.from({ length: 1200 }, (_, i) => `crowd${String(i).padStart(12, '0')}`);
    const pipeline = client.pipeline();
    for (const [i, id] of crowd.entries()) {
      const row = {
        agent: i % 500 === 0 ? 'rare' : 'crowd',
        tenant: 'default',
        ttlMs: 60_000,
        graceMs: 1,
        key: 'k',
        binding: i + 1,
        openedAt: now,
      };
      pipeline.hset(`sb:{default}:session:${id}`, row);
      pipeline.zadd('sb:{default}:sessions', now + 120_000, id);
      pipeline.zadd('sb:{default}:sessionNames', 0, id);
    }
    await pipeline.exec();
    const all = await listAll({ kind: 'session', limit: 1000 });
    const names = all.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(crowd.filter((id) => !names.includes(id))).toEqual([]);
    const rare = await listAll({ agent: 'rare' });
    expect(rare.map(({ name }) => name).sort()).toEqual([0, 500, 1000].map((i) => crowd[i]));

    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page: Any = await reader.call('lease.list', { agent: 'crowd', limit: 17, ...(cursor ? { cursor } : {}) });
      seen.push(...page.leases.map(({ name }: Any) => name));
      cursor = page.cursor;
      // The very session the cursor stands at, and others around, end between two pages.
      const ending = crowd.filter(
        (id) => cursor?.includes(id) || id.endsWith(String(seen.length % 97).padStart(2, '0')),
      );
      if (ending.length > 0) {
        await client.zrem('sb:{default}:sessions', ...ending);
        await client.zrem('sb:{default}:sessionNames', ...ending);
      }
    } while (cursor);
    const living = new Set(await client.zrange('sb:{default}:sessions', '0', '-1'));
    expect(crowd.filter((id, i) => i % 500 !== 0 && living.has(id) && !seen.includes(id))).toEqual([]);
    expect(new Set(seen).size).toBe(seen.length);
    for (const key of ['sessions', 'sessionNames']) await client.zrem(`sb:{default}:${key}`, ...crowd);
    await client.del(...crowd.map((id) => `sb:{default}:session:${id}`));
  });

  test('a page never outgrows a line: the longest names, and as many as were asked for', async () => {
    const wire = await daemon.session({ agent: '"'.repeat(200) });
    const queue = '\\'.repeat(200);
    const tasks = Array.from({ length: 600 }, (_, i) => ({ payload: i, task: `${i}`.padEnd(200, '"') }));
    await wire.call('queue.enqueue', { queue, tasks });
    for (let i = 0; i < 6; i++) await wire.call('queue.claim', { queue, count: 100 });
    const rows = await listAll({ session: wire.opened.session, limit: 1000 });
    expect(rows).toHaveLength(601);
    const back = await daemon.wire();
    const { holdings } = await back.call('session.open', {
      agent: 'x',
      resume: { session: wire.opened.session, key: wire.opened.key },
    });
    expect(holdings.length).toBeGreaterThan(300);
    expect(holdings.length).toBeLessThanOrEqual(600);
    await back.call('session.close');
  });

  test.each([
    ['limit 0', { limit: 0 }, 'limit'],
    ['limit above 1000', { limit: 1001 }, 'limit'],
    ['limit no integer', { limit: '5' }, 'limit'],
    ['kind unknown', { kind: 'thing' }, 'kind'],
    ['session empty', { session: '' }, 'session'],
    ['agent too long', { agent: 'x'.repeat(201) }, 'agent'],
    ['a cursor of nobody', { cursor: 'abc' }, 'cursor'],
    ['a cursor with a tail of nobody', { session: 'SELF', cursor: '|+nope' }, 'cursor'],
    ['a cursor that is an object', { cursor: {} }, 'cursor'],
    ['an unknown field', { nope: 1 }, 'nope'],
  ])('refuses: %s', async (_, params: Any, path) => {
    const wire = await daemon.session();
    await hold(wire, await fill(wire, 1));
    if (params.session === 'SELF') params.session = wire.opened.session;
    expect(await wire.refused('lease.list', params)).toMatchObject({ code: 'BAD_REQUEST', path });
  });

  test('lost sessions are not in it, swept or not', async () => {
    const wire = await Wire.session(daemon.url, { agent: unique('ghost') });
    await world.redis.client().zadd('sb:{default}:sessions', 1, wire.opened.session);
    expect((await reader.call('lease.list', { session: wire.opened.session })).leases).toEqual([]);
    wire.cut();
  });
});
