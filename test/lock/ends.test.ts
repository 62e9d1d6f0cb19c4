import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type Any,
  freeze,
  fresh,
  granted,
  leftoversOf,
  lost,
  pushesOf,
  queueUp,
  type Session,
  startWorld,
  storyOf,
  take,
  thaw,
  type Wire,
  type World,
  waitEnded,
  watcherOf,
} from './support.js';

let world: World;
let watcher: Wire;
let b: Session;
beforeAll(async () => {
  world = await startWorld();
  watcher = await watcherOf(world.daemon);
  b = await world.daemon.session({ agent: 'b' });
});
afterAll(() => world.stop());

const session = (agent: string, more: Any = {}): Promise<Session> => world.daemon.session({ agent, ...more });
const release = (wire: Wire, { grant }: Any): Promise<Any> => wire.call('lock.release', { grant });
const resume = ({ opened }: Session): Promise<Session> =>
  session('again', { resume: { session: opened.session, key: opened.key } });
/** The event of `type` about a grant. */
const told = (type: string, grant: string): Promise<Any> =>
  watcher
    .next(({ op, event }) => op === 'event' && event.type === type && event.data.grant === grant)
    .then(({ event }) => event.data);

test('R3: a lease of its own is renewed by its holder and lapses when it is not', async () => {
  const name = fresh();
  const a = await session('a');
  const held = await take(a, name, { leaseMs: 300 });
  expect(held.validMs).toBe(300);
  for (let i = 0; i < 4; i++) {
    await sleep(150);
    const { leases } = await a.call('lease.renew', { leases: [{ lease: `lock:${held.grant}`, fence: held.fence }] });
    expect(Date.parse(leases[0].endsAt) - Date.now()).toBeLessThanOrEqual(310);
  }
  const wait = await queueUp(b, name);
  expect(await lost(a, name)).toEqual({
    op: 'lost',
    kind: 'lock',
    name,
    grant: held.grant,
    fence: held.fence,
    reason: 'leaseLapsed',
  });
  await granted(b, wait.grant);
  expect((await told('lock.lost', held.grant)).reason).toBe('leaseLapsed');
  const { leases } = await a.call('lease.renew', { leases: [{ lease: `lock:${held.grant}`, fence: held.fence }] });
  expect(leases[0].error).toMatchObject({ code: 'STALE_FENCE', details: { yours: held.fence } });
  expect(leases[0].error.details.current).toBeGreaterThan(held.fence);
  expect(await a.refused('lock.release', { grant: held.grant })).toMatchObject({ code: 'NOT_OWNER' });
  await release(b, wait);
});

test('a lock without a lease of its own lives with its session; renewing it carries no leaseMs', async () => {
  const name = fresh();
  const a = await session('a');
  const held = await take(a, name);
  const lease = `lock:${held.grant}`;
  const { leases } = await a.call('lease.renew', {
    leases: [
      { lease, fence: held.fence },
      { lease, fence: held.fence, leaseMs: 1000 },
      { lease, fence: held.fence + 1 },
      { lease: 'lock:unknown', fence: 1 },
    ],
  });
  expect(Date.parse(leases[0].endsAt) - Date.now()).toBeGreaterThan(14_000);
  expect(leases.slice(1).map((each: Any) => each.error.code)).toEqual(['INVALID', 'STALE_FENCE', 'NOT_FOUND']);
  await release(a, held);
});

test('L6: a lock held longer than maxHoldMs is taken away, by the ask and by the definition', async () => {
  const [asked, defined] = [fresh(), fresh()];
  const a = await session('a');
  await a.call('lock.define', { name: defined, maxHoldMs: 200 });
  const holds = [await take(a, asked, { maxHoldMs: 200 }), await take(a, defined, { maxHoldMs: 60_000 })];
  expect(holds.map(({ maxHoldMs }) => maxHoldMs)).toEqual([200, 200]);
  for (const [i, name] of [asked, defined].entries()) {
    expect(await lost(a, name)).toMatchObject({ fence: holds[i].fence, reason: 'maxHold' });
    expect((await told('lock.lost', holds[i].grant)).reason).toBe('maxHold');
  }
  await a.call('lock.define', { name: defined, change: true });
});

test('L2: a frozen holder loses its lock once, and nothing it does later takes it back', async () => {
  const name = fresh();
  const a = await session('a', { ttlMs: 400 });
  const held = await take(a, name);
  freeze(a);
  const wait = await queueUp(b, name);
  const second = await granted(b, wait.grant);
  await release(b, wait);
  thaw(a);
  // Its socket was given up while it was silent, or it is told; what it does now comes from a new one.
  await a.until(() => a.closed ?? a.lines.some(({ op, kind }) => op === 'lost' && kind === 'session'));
  const again = await world.daemon.wire();
  const { session: id, key } = a.opened;
  expect(await again.refused('session.open', { agent: 'a', resume: { session: id, key } })).toMatchObject({
    code: 'SESSION_LOST',
  });
  await again.call('session.open', { agent: 'a' });
  const { leases } = await again.call('lease.renew', { leases: [{ lease: `lock:${held.grant}`, fence: held.fence }] });
  expect(leases[0].error).toMatchObject({ code: 'STALE_FENCE', details: { yours: held.fence, current: second.fence } });
  expect(await again.refused('lock.release', { grant: held.grant })).toMatchObject({ code: 'NOT_OWNER' });
  await told('lock.released', wait.grant);
  expect(storyOf(watcher, name)).toEqual([
    `granted:${held.grant}`,
    `waiting:${wait.grant}`,
    `lost:${held.grant}`,
    `granted:${wait.grant}`,
    `released:${wait.grant}`,
  ]);
  expect(second.fence).toBeGreaterThan(held.fence);
});

test('L4: a waiter whose session has run out is out of the queue, and the one behind it is granted', async () => {
  const name = fresh();
  const a = await session('a');
  const frozen = await session('frozen', { ttlMs: 300 });
  const held = await take(a, name);
  const dead = await queueUp(frozen, name);
  const next = await queueUp(b, name);
  freeze(frozen);
  expect(await told('lock.waitEnded', dead.grant)).toMatchObject({
    reason: 'sessionLost',
    session: frozen.opened.session,
  });
  expect((await b.call('lock.get', { name })).waiters).toMatchObject([{ grant: next.grant, place: 1 }]);
  await release(a, held);
  await granted(b, next.grant);
  thaw(frozen);
  await frozen.until(() => frozen.closed ?? frozen.lines.some(({ op, kind }) => op === 'lost' && kind === 'session'));
  expect(pushesOf(frozen, dead.grant)).toEqual([]);
  await release(b, next);
});

test('L4: a wait ends at once when its session is closed, not when the holder leaves', async () => {
  const name = fresh();
  const a = await session('a');
  const held = await take(a, name);
  const leaving = await session('leaving');
  const wait = await queueUp(leaving, name);
  const mine = fresh();
  const own = await take(leaving, mine);
  expect(await leaving.call('session.close')).toEqual({ released: 2 });
  expect(await told('lock.waitEnded', wait.grant)).toMatchObject({ reason: 'cancelled' });
  expect(await told('lock.released', own.grant)).toMatchObject({ reason: 'closed', session: leaving.opened.session });
  await release(a, held);
  expect(await leftoversOf(world, name, mine)).toEqual([]);
});

test('A13: the zombie writes last: what it sends is refused, and the guarded side can ask', async () => {
  const name = fresh();
  const zombie = await session('zombie', { ttlMs: 300 });
  const held = await take(zombie, name);
  const register: { fence: number; value: string }[] = [];
  // The guarded side: takes a write only under a fence that is current.
  const write = async (fence: number, value: string): Promise<boolean> => {
    const { valid } = await b.call('lock.check', { name, fence });
    if (valid) register.push({ fence, value });
    return valid;
  };
  expect(await write(held.fence, 'first')).toBe(true);
  freeze(zombie);
  const wait = await queueUp(b, name);
  const { fence } = await granted(b, wait.grant);
  expect(await write(fence, 'second')).toBe(true);
  // L7: the late write, with the fence that came after in the answer.
  expect(await write(held.fence, 'late')).toBe(false);
  expect(await b.call('lock.check', { name, fence: held.fence })).toEqual({ valid: false, current: fence });
  expect(register.map(({ value }) => value)).toEqual(['first', 'second']);
  await told('lock.granted', wait.grant);
  expect(watcher.events().filter(({ event }) => event.type === 'lock.lost' && event.data.lock === name)).toHaveLength(
    1,
  );
  await release(b, wait);
});

test('A12 (a): an agent is killed: its locks with onDisconnect release come back within the grace, each with an event', async () => {
  const names = [fresh(), fresh(), fresh(), fresh()];
  const a = await session('a', { ttlMs: 10_000 });
  await a.call('queue.enqueue', { queue: 'q', tasks: [{ payload: 1 }, { payload: 2 }] });
  const { tasks } = await a.call('queue.claim', { queue: 'q', count: 2 });
  const held: Any[] = [];
  // The one that stays was taken first: it must not keep the others from going.
  for (const [i, name] of names.entries())
    held.push(await take(a, name, { onDisconnect: i === 0 ? 'hold' : 'release' }));
  expect(held.map(({ validMs }) => validMs)).toEqual([10_000, 300, 300, 300]);
  const waits: Any[] = [];
  for (const name of names) waits.push(await queueUp(b, name));
  const started = performance.now();
  a.cut();
  for (const { grant } of waits.slice(1)) await granted(b, grant);
  expect(performance.now() - started).toBeGreaterThan(290);
  for (const { grant } of held.slice(1)) {
    expect(await told('lock.lost', grant)).toMatchObject({
      reason: 'disconnected',
      session: a.opened.session,
      agent: 'a',
    });
  }
  expect((await b.call('queue.get', { task: tasks[0].task })).state).toBe('ready');
  expect(pushesOf(b, waits[0].grant)).toEqual([]);
  const back = await resume(a);
  expect(back.opened.holdings).toEqual([
    { lease: `lock:${held[0].grant}`, kind: 'lock', name: names[0], state: 'held', fence: held[0].fence },
  ]);
  await release(back, held[0]);
  for (const wait of waits) await release(b, wait);
});

test('A12 (c): a clean close gives everything back at once, without a delay of the lock', async () => {
  const name = fresh();
  await b.call('lock.define', { name, lockDelayMs: 60_000 });
  const a = await session('a');
  const held = await take(a, name);
  const wait = await queueUp(b, name);
  await a.close();
  await granted(b, wait.grant);
  expect(await told('lock.released', held.grant)).toMatchObject({ reason: 'closed' });
  await release(b, wait);
  await b.call('lock.define', { name, change: true });
});

test('A12 (d): who resumes within the grace keeps everything', async () => {
  const [held, waited] = [fresh(), fresh()];
  const a = await session('a');
  const mine = await take(a, held, { onDisconnect: 'release', leaseMs: 5000 });
  const other = await take(b, waited);
  const wait = await queueUp(a, waited);
  a.cut();
  const back = await resume(a);
  expect(back.opened.holdings).toEqual([
    {
      lease: `lock:${mine.grant}`,
      kind: 'lock',
      name: held,
      state: 'held',
      fence: mine.fence,
      endsAt: expect.any(String),
    },
    { lease: `lock:${wait.grant}`, kind: 'lock', name: waited, state: 'waiting', endsAt: expect.any(String) },
  ]);
  await release(b, other);
  await granted(back, wait.grant);
  await sleep(400);
  expect(await b.call('lock.check', { name: held, fence: mine.fence })).toMatchObject({ valid: true });
  await release(back, mine);
  await release(back, wait);
});

test('lock-delay: after an involuntary end nobody gets the lock at once, after a release they do', async () => {
  const name = fresh();
  await b.call('lock.define', { name, lockDelayMs: 400 });
  const a = await session('a');
  await release(a, await take(a, name));
  const held = await take(a, name, { leaseMs: 100 });
  await lost(a, name);
  const from = performance.now();
  const refused = await b.refused('lock.acquire', { name });
  expect(refused).toMatchObject({ code: 'HELD', details: { why: 'delay', endsAt: expect.any(String) } });
  expect(refused.afterMs).toBeGreaterThan(0);
  const wait = await queueUp(b, name);
  expect((await b.call('lock.get', { name })).notBeforeAt).toEqual(expect.any(String));
  await granted(b, wait.grant);
  expect(performance.now() - from).toBeGreaterThan(150);
  const { notBeforeAt } = await told('lock.lost', held.grant);
  const grantedAt = await watcher.until(() =>
    watcher.events().find(({ event }) => event.type === 'lock.granted' && event.data.grant === wait.grant),
  );
  expect(Date.parse(grantedAt.event.time)).toBeGreaterThanOrEqual(Date.parse(notBeforeAt));
  await release(b, wait);
  await b.call('lock.define', { name, change: true });
});

test.each([
  { of: { '**': 900, a: 300 }, order: ['**', 'a'] },
  { of: { '**': 300, a: 900 }, order: ['a', '**'] },
])('lock-delay: who waits for all paths is looked at after the later of two delays, $order', async ({ of, order }) => {
  const [one, other] = [await session('one'), await session('other')];
  for (const [path, lockDelayMs] of Object.entries(of))
    await b.call('lock.define', { name: `path:${path}`, lockDelayMs, change: true });
  await take(one, 'path:**', { mode: 'shared' });
  await take(other, 'path:a', { mode: 'shared' });
  const wait = await queueUp(b, 'path:**');
  for (const path of order) await b.call('lock.break', { name: `path:${path}`, reason: 'stuck' });
  await granted(b, wait.grant, 5000);
  const at = (type: string, which: (data: Any) => boolean): number[] =>
    watcher
      .events()
      .filter(({ event }) => event.type === type && which(event.data))
      .map(({ event }) => Date.parse(event.type === 'lock.lost' ? event.data.notBeforeAt : event.time));
  const ends = at('lock.lost', ({ session: of }) => [one, other].some(({ opened }) => opened.session === of));
  expect(ends).toHaveLength(2);
  await told('lock.granted', wait.grant);
  expect(at('lock.granted', ({ grant }) => grant === wait.grant)[0]).toBeGreaterThanOrEqual(Math.max(...ends));
  await release(b, wait);
  for (const path of order) await b.call('lock.define', { name: `path:${path}`, change: true });
});

test('break takes the lock from all its holders, with an audit event and a word to each', async () => {
  const [name, other] = [fresh(), fresh()];
  const [a, c] = [await session('a'), await session('c')];
  const held = [
    await take(a, name, { mode: 'shared' }),
    await c.call('lock.acquire', { locks: [{ name, mode: 'shared' }, { name: other }] }),
  ];
  const wait = await queueUp(b, name);
  const broken = await b.call('lock.break', { name, reason: 'stuck since noon' });
  expect(broken.broken).toEqual([
    { holder: { session: a.opened.session, agent: 'a' }, grant: held[0].grant, fence: held[0].fence },
    { holder: { session: c.opened.session, agent: 'c' }, grant: held[1].grant, fence: held[1].fence },
  ]);
  expect(broken.holders).toMatchObject([{ holder: { agent: 'b' }, grant: wait.grant }]);
  expect(await lost(a, name)).toEqual({
    op: 'lost',
    kind: 'lock',
    name,
    grant: held[0].grant,
    fence: held[0].fence,
    reason: 'broken',
  });
  // All of a grant goes, not half of it.
  expect(await lost(c, other)).toMatchObject({ reason: 'broken', grant: held[1].grant });
  expect((await watcher.event('lock.broken', name)).event.data).toEqual({
    lock: name,
    session: b.opened.session,
    agent: 'b',
    reason: 'stuck since noon',
    holders: 2,
  });
  await granted(b, wait.grant);
  expect((await b.call('lock.break', { name: fresh(), reason: 'nobody' })).broken).toEqual([]);
  await release(b, wait);
  expect(await leftoversOf(world, name, other)).toEqual([]);
});

test('lease.list shows locks and waits, and lease.revoke takes them', async () => {
  const [held, waited] = [fresh(), fresh()];
  const a = await session('a');
  const mine = await a.call('lock.acquire', { locks: [{ name: held }, { name: `${held}-too` }] });
  const other = await take(b, waited);
  const wait = await queueUp(a, waited);
  const { leases } = await b.call('lease.list', { session: a.opened.session, kind: 'lock' });
  const holder = { session: a.opened.session, agent: 'a' };
  expect(leases).toEqual([
    {
      lease: `lock:${mine.grant}`,
      kind: 'lock',
      holder,
      name: held,
      locks: [held, `${held}-too`],
      fence: mine.fence,
      sinceAt: expect.any(String),
    },
    {
      lease: `lock:${wait.grant}`,
      kind: 'lock',
      holder,
      name: waited,
      state: 'waiting',
      sinceAt: expect.any(String),
      endsAt: expect.any(String),
    },
  ]);
  expect(Math.abs(Date.parse(leases[0].sinceAt) - Date.now())).toBeLessThan(20_000);
  await b.call('lease.revoke', { lease: `lock:${mine.grant}`, reason: 'operator' });
  expect(await lost(a, held)).toMatchObject({ reason: 'revoked', grant: mine.grant });
  expect(await b.refused('lease.revoke', { lease: `lock:${mine.grant}`, reason: 'again' })).toMatchObject({
    code: 'NOT_FOUND',
  });
  await b.call('lease.revoke', { lease: `lock:${wait.grant}`, reason: 'operator' });
  expect(await waitEnded(a, wait.grant)).toMatchObject({ reason: 'cancelled' });
  expect((await watcher.event('lease.revoked', `lock:${mine.grant}`)).event.data).toMatchObject({
    lock: held,
    fence: mine.fence,
    reason: 'operator',
  });
  await release(b, other);
});

test('a session that holds more than a page of locks gives them all back, with one event each', async () => {
  const prefix = fresh('many');
  const a = await session('a');
  const names = Array.from({ length: 250 }, (_, i) => `${prefix}.${i}`);
  await Promise.all(names.map((name) => take(a, name)));
  const from = watcher.lines.length;
  expect(await a.call('session.close')).toEqual({ released: 250 });
  const events = (): Any[] =>
    watcher.lines
      .slice(from)
      .filter(({ event }) => event?.type === 'lock.released' && event.data.lock.startsWith(`${prefix}.`));
  await watcher.until(() => events().length === 250);
  expect(new Set(events().map(({ event }) => event.data.lock)).size).toBe(250);
  expect((await b.call('lock.list', { prefix })).locks).toEqual([]);
});

test('when a session ends under its open socket, release answers NOT_OWNER and the rest SESSION_LOST', async () => {
  const name = fresh();
  const a = await session('a');
  const held = await take(a, name);
  await b.call('lease.revoke', { lease: `session:${a.opened.session}`, reason: 'out' });
  await a.next(({ op, kind }) => op === 'lost' && kind === 'session');
  expect(await told('lock.lost', held.grant)).toMatchObject({ reason: 'sessionLost' });
  expect(await a.refused('lock.release', { grant: held.grant })).toMatchObject({ code: 'NOT_OWNER' });
  expect(await a.refused('lock.acquire', { name })).toMatchObject({ code: 'SESSION_LOST' });
  const { leases } = await a.call('lease.renew', { leases: [{ lease: `lock:${held.grant}`, fence: held.fence }] });
  expect(leases[0].error).toMatchObject({ code: 'STALE_FENCE' });
});
