import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type Any,
  fresh,
  granted,
  leftovers,
  queueUp,
  type Session,
  startWorld,
  take,
  type World,
  waitEnded,
} from './support.js';

let world: World;
let a: Session;
let b: Session;
beforeAll(async () => {
  world = await startWorld();
  a = await world.daemon.session({ agent: 'a' });
  b = await world.daemon.session({ agent: 'b' });
});
afterAll(() => world.stop());

const unfit: [string, Any, string][] = [
  ['acquire', {}, 'INVALID'],
  ['acquire', { name: '' }, 'name'],
  ['acquire', { name: 'x'.repeat(201) }, 'name'],
  ['acquire', { name: 'a\u0000b' }, 'name'],
  ['acquire', { name: 'path:' }, 'name'],
  ['acquire', { name: 'path:a/../b' }, 'name'],
  ['acquire', { name: 'path:./a' }, 'name'],
  ['acquire', { name: 'path:a//b' }, 'name'],
  ['acquire', { name: 'path:a/' }, 'name'],
  ['acquire', { name: 'x', mode: 'both' }, 'mode'],
  ['acquire', { name: 'x', permits: 0 }, 'permits'],
  ['acquire', { name: 'x', permits: -1 }, 'permits'],
  ['acquire', { name: 'x', permits: 1.5 }, 'permits'],
  ['acquire', { name: 'x', mode: 'shared', permits: 1 }, 'INVALID'],
  ['acquire', { name: 'x', locks: [{ name: 'y' }] }, 'INVALID'],
  ['acquire', { locks: [] }, 'locks'],
  ['acquire', { locks: [{ name: 'y' }, { name: 'y' }] }, 'INVALID'],
  ['acquire', { locks: [{ name: 'path:d/**' }, { name: 'path:d' }] }, 'INVALID'],
  ['acquire', { locks: [{ name: 'y', waitMs: 1 }] }, 'locks[0].waitMs'],
  ['acquire', { locks: [{ name: 'y' }], mode: 'shared' }, 'INVALID'],
  ['acquire', { locks: Array.from({ length: 51 }, (_, i) => ({ name: `y${i}` })) }, 'locks'],
  ['acquire', { locks: Array.from({ length: 50 }, (_, i) => ({ name: `path:${'d/'.repeat(20)}${i}` })) }, 'LIMIT'],
  ['acquire', { name: 'x', waitMs: -1 }, 'waitMs'],
  ['acquire', { name: 'x', waitMs: 367 * 86_400_000 }, 'waitMs'],
  ['acquire', { name: 'x', leaseMs: 0 }, 'leaseMs'],
  ['acquire', { name: 'x', maxHoldMs: 0 }, 'maxHoldMs'],
  ['acquire', { name: 'x', grant: '' }, 'grant'],
  ['acquire', { name: 'x', owner: '' }, 'owner'],
  ['acquire', { name: 'x', reason: 'x'.repeat(1001) }, 'reason'],
  ['acquire', { name: 'x', onDisconnect: 'keep' }, 'onDisconnect'],
  ['acquire', { name: 'x', reclaim: 7 }, 'INVALID'],
  ['acquire', { name: 'x', grant: 'g', reclaim: -1 }, 'reclaim'],
  ['acquire', { name: 'x', grant: 'g', reclaim: 7 }, 'STALE_FENCE'],
  ['acquire', { name: 'x', color: 1 }, 'color'],
  ['acquire', { name: 'x', permits: 1 }, 'KIND_MISMATCH'],
  ['release', {}, 'grant'],
  ['release', { grant: 'unknown' }, 'NOT_OWNER'],
  ['define', {}, 'name'],
  ['define', { name: 'x', capacity: 0 }, 'capacity'],
  ['define', { name: 'x', capacity: -3 }, 'capacity'],
  ['define', { name: 'x', lockDelayMs: -1 }, 'lockDelayMs'],
  ['define', { name: 'x', maxHoldMs: 0 }, 'maxHoldMs'],
  ['define', { name: 'path:a', capacity: 2 }, 'INVALID'],
  ['check', { name: 'x' }, 'fence'],
  ['check', { name: 'x', fence: -1 }, 'fence'],
  ['get', {}, 'name'],
  ['list', { limit: 0 }, 'limit'],
  ['break', { name: 'x' }, 'reason'],
];

test.each(unfit)('lock.%s %j is refused, and nothing is stored', async (verb, params, why) => {
  const error = await a.refused(`lock.${verb}`, params);
  if (/^[A-Z_]+$/.test(why)) expect(error.code).toBe(why);
  else expect(error).toMatchObject({ code: 'BAD_REQUEST', path: why });
  expect(await leftovers(world)).toEqual([]);
});

test('R1: a mutex says who holds it; only its holder releases it, and whoever waits is told, not polled', async () => {
  const name = fresh();
  const held = await take(a, name, { reason: 'building' });
  expect(held).toEqual({
    grant: expect.any(String),
    state: 'held',
    fence: expect.any(Number),
    validMs: 15_000,
    epoch: expect.stringMatching(/^[0-9a-z]+$/),
    durability: 'memory',
  });
  const refused = await b.refused('lock.acquire', { name });
  expect(refused).toMatchObject({
    code: 'HELD',
    retry: true,
    details: {
      lock: name,
      holder: { session: a.opened.session, agent: 'a' },
      reason: 'building',
      sinceAt: expect.any(String),
      place: 1,
    },
  });
  expect(await b.refused('lock.release', { grant: held.grant })).toMatchObject({ code: 'NOT_OWNER' });
  const wait = await queueUp(b, name);
  expect(wait).toMatchObject({ place: 1, held: { lock: name, holder: { agent: 'a' }, reason: 'building' } });
  expect(await a.call('lock.get', { name })).toMatchObject({
    name,
    lockDelayMs: 0,
    inUse: 1,
    waiting: 1,
    holders: [{ holder: { agent: 'a' }, mode: 'exclusive', fence: held.fence, reason: 'building', grant: held.grant }],
    waiters: [{ holder: { agent: 'b' }, mode: 'exclusive', grant: wait.grant, place: 1 }],
  });
  expect(await a.call('lock.release', { grant: held.grant })).toEqual({ state: 'released' });
  const push = await granted(b, wait.grant);
  expect(push).toMatchObject({
    op: 'granted',
    grant: wait.grant,
    validMs: 15_000,
    epoch: held.epoch,
    durability: 'memory',
  });
  expect(push.fence).toBeGreaterThan(held.fence);
  await b.call('lock.release', { grant: wait.grant });
  expect(await leftovers(world)).toEqual([]);
});

test('R2: each acquisition has an id of its own, and a release under an old one frees nobody', async () => {
  const name = fresh();
  const first = await take(a, name, { grant: 'g-first' });
  expect(await a.call('lock.release', { grant: 'g-first' })).toEqual({ state: 'released' });
  const second = await take(b, name);
  expect(second.grant).not.toBe(first.grant);
  expect(await a.call('lock.release', { grant: 'g-first' })).toEqual({ state: 'alreadyReleased' });
  expect(await b.refused('lock.release', { grant: 'g-first' })).toMatchObject({ code: 'NOT_OWNER' });
  expect((await a.call('lock.get', { name })).holders).toMatchObject([{ grant: second.grant }]);
  await b.call('lock.release', { grant: second.grant });
});

test('an acquire repeated under the same grant is the same request, with other locks or from another session it is not', async () => {
  const name = fresh();
  const grant = fresh('grant');
  const held = await take(a, name, { grant });
  expect(await take(a, name, { grant })).toEqual(held);
  expect(await a.refused('lock.acquire', { name: fresh(), grant })).toMatchObject({ code: 'CONFLICT' });
  expect(await b.refused('lock.acquire', { name, grant })).toMatchObject({ code: 'CONFLICT' });
  const wait = await queueUp(b, name);
  expect(await queueUp(b, name, { grant: wait.grant })).toEqual(wait);
  expect((await a.call('lock.get', { name })).waiting).toBe(1);
  await a.call('lock.release', { grant });
  expect(await a.refused('lock.acquire', { name, grant })).toMatchObject({
    code: 'STALE_FENCE',
    details: { yours: held.fence },
  });
  await granted(b, wait.grant);
  expect(await b.call('lock.release', { grant: wait.grant })).toEqual({ state: 'released' });
});

test('another grant of the same session waits its turn', async () => {
  const name = fresh();
  const first = await take(a, name);
  const second = await queueUp(a, name);
  await a.call('lock.release', { grant: first.grant });
  await granted(a, second.grant);
  await a.call('lock.release', { grant: second.grant });
});

test('a wait that is released is cancelled, and that is all its waiter hears of it', async () => {
  const name = fresh();
  const held = await take(a, name);
  const wait = await queueUp(b, name);
  expect(await b.call('lock.release', { grant: wait.grant })).toEqual({ state: 'cancelled' });
  expect(await waitEnded(b, wait.grant)).toEqual({ op: 'waitEnded', grant: wait.grant, reason: 'cancelled' });
  await a.call('lock.release', { grant: held.grant });
  expect(await b.call('lock.release', { grant: wait.grant })).toEqual({ state: 'alreadyReleased' });
});

test('check answers whether a fence is current, and which was given last', async () => {
  const name = fresh();
  expect(await a.call('lock.check', { name, fence: 7 })).toEqual({ valid: false, current: 0 });
  const first = await take(a, name);
  expect(await b.call('lock.check', { name, fence: first.fence })).toEqual({ valid: true, current: first.fence });
  await a.call('lock.release', { grant: first.grant });
  expect(await b.call('lock.check', { name, fence: first.fence })).toEqual({ valid: false, current: first.fence });
  const second = await take(b, name);
  expect(await b.call('lock.check', { name, fence: first.fence })).toEqual({ valid: false, current: second.fence });
  await b.call('lock.release', { grant: second.grant });
});

test('define: the same again is fine, other values need change, and the defaults undefine it', async () => {
  const name = fresh();
  const definition = { name, capacity: 3, lockDelayMs: 10, maxHoldMs: 5000 };
  expect(await a.call('lock.define', definition)).toEqual(definition);
  expect(await a.call('lock.define', definition)).toEqual(definition);
  expect(await b.refused('lock.define', { name, capacity: 4 })).toMatchObject({
    code: 'CONFLICT',
    details: { capacity: 3 },
  });
  expect(await b.refused('lock.define', { name })).toMatchObject({ code: 'CONFLICT' });
  expect(await b.call('lock.define', { name, capacity: 4, change: true })).toEqual({
    name,
    capacity: 4,
    lockDelayMs: 0,
  });
  expect(await a.call('lock.get', { name })).toMatchObject({
    capacity: 4,
    lockDelayMs: 0,
    inUse: 0,
    holders: [],
    waiters: [],
  });
  expect(await a.refused('lock.acquire', { name, mode: 'shared' })).toMatchObject({ code: 'KIND_MISMATCH' });
  expect(await a.refused('lock.acquire', { name, permits: 5 })).toMatchObject({
    code: 'NEVER_FITS',
    details: { permits: 5, capacity: 4 },
  });
  await b.call('lock.define', { name, change: true });
  expect((await a.call('lock.list', { prefix: name })).locks).toEqual([]);
});

test('list shows what is defined, held or waited for, by name and page by page', async () => {
  const prefix = fresh('list');
  const wanted = ['a', 'b', 'c', 'd', 'é'].map((end) => `${prefix}.${end}`);
  for (const name of wanted) await take(a, name);
  await a.call('lock.define', { name: `${prefix}.z`, lockDelayMs: 5 });
  const found: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page: Any = await b.call('lock.list', { prefix, limit: 2, ...(cursor ? { cursor } : {}) });
    found.push(...page.locks.map((lock: Any) => lock.name));
    cursor = page.cursor;
    if (!cursor) break;
  }
  expect(found).toEqual([...wanted.slice(0, 4), `${prefix}.z`, wanted[4]]);
  for (const name of wanted)
    for (const { grant } of (await a.call('lock.get', { name })).holders) await a.call('lock.release', { grant });
  await a.call('lock.define', { name: `${prefix}.z`, change: true });
});

test('get shows at most a hundred holders of a path, wherever above or below it they hold', async () => {
  const at = fresh('path:many');
  const [deep, hundred] = [`${at}/a/b/c`, 100];
  // The lock itself has just as many as are shown; its directories and what is below it have more of them.
  const names = [...Array(hundred).fill(deep), ...Array(40).fill(`${at}/**`), ...Array(40).fill(`${deep}/below`)];
  const held = await Promise.all(names.map((name, i) => take(a, name, { mode: 'shared', owner: `${i}` })));
  const { holders, inUse } = await a.call('lock.get', { name: deep });
  expect(holders).toHaveLength(hundred);
  expect(inUse).toBe(hundred);
  const [last] = held.splice(0, 1);
  await a.call('lock.release', { grant: last.grant });
  expect((await a.call('lock.get', { name: deep })).holders).toHaveLength(hundred);
  await Promise.all(held.map(({ grant }) => a.call('lock.release', { grant })));
});

test('names of any well-formed bytes come back as they were', async () => {
  for (const name of [
    'é'.repeat(100),
    '*',
    'a\\b',
    '"quoted"',
    '{tag}',
    ' ',
    '🔒',
    'a:b',
    'path',
    '\u200b',
    '%s%z',
    '\uffff',
  ]) {
    const held = await take(a, name, { reason: name, grant: name });
    expect(held.grant).toBe(name);
    expect(await b.call('lock.get', { name })).toMatchObject({ name, holders: [{ reason: name, grant: name }] });
    expect(await b.refused('lock.acquire', { name })).toMatchObject({
      code: 'HELD',
      details: { lock: name, reason: name },
    });
    await a.call('lock.release', { grant: name });
  }
  expect(await leftovers(world)).toEqual([]);
});

test('reads need no session; the rest does', async () => {
  const wire = await world.daemon.wire();
  for (const op of ['lock.get', 'lock.list']) await wire.call(op, op === 'lock.get' ? { name: 'x' } : {});
  await wire.call('lock.check', { name: 'x', fence: 1 });
  for (const [op, params] of [
    ['lock.acquire', { name: 'x' }],
    ['lock.release', { grant: 'x' }],
    ['lock.define', { name: 'x' }],
    ['lock.break', { name: 'x', reason: 'x' }],
  ] as const) {
    expect(await wire.refused(op, params)).toMatchObject({ code: 'NO_SESSION' });
  }
  const elsewhere = await world.daemon.wire();
  expect(await elsewhere.call('lock.list', { namespace: 'never-opened' })).toEqual({ locks: [] });
});

test('acquires of many deep paths are not joined into one long script: others are served between them', async () => {
  const wire = await world.daemon.session();
  const client = world.redis.client();
  const scripts = async (): Promise<number> => {
    const stats = await client.info('commandstats');
    return [...stats.matchAll(/cmdstat_evalsha?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
  };
  const root = fresh('path:deep');
  const asks = Array.from({ length: 40 }, (_, i) => ({
    grant: `${root}-${i}`,
    locks: Array.from({ length: 50 }, (_, k) => ({ name: `${root}/${i}/${k}/a/b/c/d/e` })),
  }));
  const before = await scripts();
  const held = await Promise.all(asks.map((ask) => wire.call('lock.acquire', ask)));
  expect(held.every(({ state }: Any) => state === 'held')).toBe(true);
  expect((await scripts()) - before).toBeGreaterThanOrEqual(asks.length);
  client.disconnect();
  expect(await wire.call('session.close')).toEqual({ released: asks.length });
  // What it held comes back in pages.
  const next = await world.daemon.session();
  const all = await next.call('lock.acquire', { name: `${root}/**`, waitMs: 10_000 });
  if (all.state === 'waiting') await granted(next, all.grant);
  expect(await next.call('lock.release', { grant: all.grant })).toEqual({ state: 'released' });
});
