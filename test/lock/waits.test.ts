import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/until.js';
import {
  type Any,
  fresh,
  granted,
  leftoversOf,
  pushesOf,
  queueUp,
  type Session,
  startWorld,
  storyOf,
  take,
  type World,
  waitEnded,
  watcherOf,
} from './support.js';

let world: World;
let a: Session;
let b: Session;
let c: Session;
beforeAll(async () => {
  world = await startWorld();
  [a, b, c] = (await Promise.all(['a', 'b', 'c'].map((agent) => world.daemon.session({ agent })))) as [
    Session,
    Session,
    Session,
  ];
});
afterAll(() => world.stop());

const release = (wire: Session, { grant }: Any): Promise<Any> => wire.call('lock.release', { grant });

test('readers share, a writer waits for all of them, and later readers do not pass it', async () => {
  const name = fresh();
  const readers = [await take(a, name, { mode: 'shared' }), await take(b, name, { mode: 'shared' })];
  const writer = await queueUp(c, name, { mode: 'exclusive' });
  const late = await queueUp(a, name, { mode: 'shared', owner: 'another handler' });
  expect(late.place).toBe(2);
  expect((await a.refused('lock.acquire', { name, mode: 'shared' })).code).toBe('HELD');
  await release(a, readers[0]);
  await release(b, readers[1]);
  await granted(c, writer.grant);
  expect(pushesOf(a, late.grant)).toEqual([]);
  await release(c, writer);
  await granted(a, late.grant);
  await release(a, late);
});

test('L11: a lock is of one kind; the other word is KIND_MISMATCH, neither neighbour nor stranger can release it, and each refusal is in the log', async () => {
  const name = fresh();
  const watcher = await watcherOf(world.daemon, ['lock.refused']);
  const held = await take(a, name);
  expect(await b.refused('lock.acquire', { name, permits: 1 })).toMatchObject({
    code: 'KIND_MISMATCH',
    details: { lock: name },
  });
  const reader = await queueUp(b, name, { mode: 'shared' });
  expect(await b.refused('lock.release', { grant: held.grant })).toMatchObject({ code: 'NOT_OWNER' });
  // What has ended is nobody's: a release that comes late, under whatever session, is no event.
  const over = await take(a, fresh());
  await release(a, over);
  expect(await b.refused('lock.release', { grant: over.grant })).toMatchObject({ code: 'NOT_OWNER' });
  expect(await c.refused('lock.release', { grant: 'guessed' })).toMatchObject({ code: 'NOT_OWNER' });
  await watcher.event('lock.refused', 'guessed');
  const [mismatch, foreign, guessed] = watcher.events().map(({ event }) => event);
  const of = ({ opened: { session } }: Session, agent: string) => ({ session, agent });
  expect(mismatch).toMatchObject({ subject: name, data: { lock: name, code: 'KIND_MISMATCH', ...of(b, 'b') } });
  expect(foreign.data).toEqual({ lock: name, grant: held.grant, code: 'NOT_OWNER', ...of(b, 'b') });
  expect(guessed).toMatchObject({ subject: 'guessed', data: { grant: 'guessed', code: 'NOT_OWNER', ...of(c, 'c') } });
  expect(await a.refused('lock.define', { name, capacity: 2 })).toMatchObject({ code: 'CONFLICT' });
  expect((await a.call('lock.get', { name })).holders).toMatchObject([{ grant: held.grant }]);
  await release(b, reader);
  await release(a, held);
});

test('L12: what one caller asks for evicts nobody: leases and capacity of others never depend on it', async () => {
  const [mutex, semaphore] = [fresh(), fresh()];
  await a.call('lock.define', { name: semaphore, capacity: 1 });
  const held = [await take(a, mutex, { leaseMs: 60_000 }), await take(a, semaphore, { leaseMs: 60_000 })];
  for (const name of [mutex, semaphore]) {
    expect((await b.refused('lock.acquire', { name, leaseMs: 50 })).code).toBe('HELD');
    const [holder] = (await a.call('lock.get', { name })).holders;
    expect(Date.parse(holder.endsAt) - Date.parse(holder.sinceAt)).toBeGreaterThan(59_000);
  }
  expect(await c.refused('lock.acquire', { name: semaphore, permits: 5 })).toMatchObject({ code: 'NEVER_FITS' });
  expect(await c.refused('lock.define', { name: semaphore, capacity: 5 })).toMatchObject({ code: 'CONFLICT' });
  for (const each of held) await release(a, each);
  await a.call('lock.define', { name: semaphore, change: true });
});

test('L22: a capacity that is defined again or made smaller never issues a permit too many', async () => {
  const name = fresh();
  const watcher = await watcherOf(world.daemon, ['lock.*']);
  await a.call('lock.define', { name, capacity: 10 });
  const held = await Promise.all(Array.from({ length: 10 }, () => take(a, name)));
  await a.call('lock.define', { name, capacity: 10 });
  expect(await b.refused('lock.acquire', { name })).toMatchObject({ code: 'HELD' });
  expect((await a.call('lock.get', { name })).inUse).toBe(10);
  await a.call('lock.define', { name, capacity: 5, change: true });
  const asks = await Promise.all(Array.from({ length: 20 }, () => queueUp(b, name)));
  for (const each of held.slice(0, 5)) await release(a, each);
  expect(await a.call('lock.get', { name })).toMatchObject({ capacity: 5, inUse: 5, waiting: 20 });
  for (const each of held.slice(5)) await release(a, each);
  for (const { grant } of asks) {
    await granted(b, grant);
    await b.call('lock.release', { grant });
  }
  await watcher.next(({ event }) => event?.type === 'lock.released' && event.data.grant === asks.at(-1).grant);
  let inUse = 0;
  const uses = watcher.events().flatMap(({ event: { type, data } }) => {
    if (data.lock !== name) return [];
    if (type === 'lock.granted') inUse += data.permits;
    if (type === 'lock.released') inUse--;
    return [inUse];
  });
  expect(Math.max(...uses)).toBe(10);
  expect(Math.max(...uses.slice(uses.lastIndexOf(6) + 1))).toBeLessThanOrEqual(5);
  await a.call('lock.define', { name, change: true });
});

test('more capacity grants at once, and a wait that can never fit any more ends so', async () => {
  const name = fresh();
  await a.call('lock.define', { name, capacity: 3 });
  const held = await take(a, name, { permits: 3 });
  const [big, small] = [await queueUp(b, name, { permits: 3 }), await queueUp(c, name, { permits: 1 })];
  await a.call('lock.define', { name, capacity: 2, change: true });
  expect(await waitEnded(b, big.grant)).toMatchObject({ reason: 'neverFits' });
  expect(pushesOf(c, small.grant)).toEqual([]);
  await a.call('lock.define', { name, capacity: 4, change: true });
  await granted(c, small.grant);
  await release(c, small);
  await release(a, held);
  await a.call('lock.define', { name, change: true });
});

test('a lock that becomes one of another kind ends the waits of the old kind, and gives nothing before it is free', async () => {
  const name = fresh();
  const held = await take(a, name, { mode: 'shared' });
  const writer = await queueUp(b, name, { mode: 'exclusive' });
  await a.call('lock.define', { name, capacity: 2, change: true });
  expect(await waitEnded(b, writer.grant)).toMatchObject({ reason: 'neverFits' });
  const permit = await queueUp(c, name, { permits: 1 });
  await release(a, held);
  await granted(c, permit.grant);
  await release(c, permit);
  await a.call('lock.define', { name, change: true });
});

test('a large request is not overtaken by small ones for ever', async () => {
  const name = fresh();
  await a.call('lock.define', { name, capacity: 3 });
  const first = [await take(a, name), await take(a, name)];
  const big = await queueUp(b, name, { permits: 3 });
  const small = await queueUp(c, name);
  await release(a, first[0]);
  expect(pushesOf(c, small.grant)).toEqual([]);
  await release(a, first[1]);
  await granted(b, big.grant);
  await release(b, big);
  await granted(c, small.grant);
  await release(c, small);
  await a.call('lock.define', { name, change: true });
});

test('several locks are taken in one step, and a failed try takes none of them', async () => {
  const [x, y, z] = [fresh(), fresh(), fresh()];
  const held = await take(a, y);
  expect(await b.refused('lock.acquire', { locks: [{ name: x }, { name: y }, { name: z }] })).toMatchObject({
    code: 'HELD',
    details: { lock: y, holder: { agent: 'a' } },
  });
  expect(await leftoversOf(world, x)).toEqual([]);
  const both = await b.call('lock.acquire', { locks: [{ name: x }, { name: y }], waitMs: 60_000 });
  expect(both.state).toBe('waiting');
  // What nobody holds but somebody waits for is not given to a newcomer.
  expect((await c.refused('lock.acquire', { name: x })).code).toBe('HELD');
  await release(a, held);
  const push = await granted(b, both.grant);
  for (const name of [x, y])
    expect(await c.call('lock.check', { name, fence: push.fence })).toMatchObject({ valid: true });
  await release(b, both);
});

test('L19: 2000 waits whose time runs out while the lock comes free: each ends in exactly one way', {
  timeout: 60_000,
}, async () => {
  const names = Array.from({ length: 20 }, () => fresh());
  let granteds = 0;
  const lane = async (name: string): Promise<void> => {
    for (let round = 0; round < 100; round++) {
      const held = await take(a, name);
      const wait = await b.call('lock.acquire', { name, waitMs: 50 });
      expect(wait.state).toBe('waiting');
      await sleep(48 + (round % 5));
      await release(a, held);
      await b.next((line) => (line.op === 'granted' || line.op === 'waitEnded') && line.grant === wait.grant);
      const [{ op, reason }] = pushesOf(b, wait.grant);
      if (op === 'granted') granteds++;
      else expect(reason).toBe('timeout');
      expect(await release(b, wait)).toEqual({ state: op === 'granted' ? 'released' : 'alreadyReleased' });
      expect(pushesOf(b, wait.grant)).toHaveLength(1);
    }
  };
  await Promise.all(names.map(lane));
  expect(granteds).toBeLessThan(2000);
  expect(await leftoversOf(world, ...names)).toEqual([]);
});

test('L21: two locks asked for in either order by twenty agents: never one without the other, no deadlock, nothing left', async () => {
  const [x, y] = [fresh(), fresh()];
  const watcher = await watcherOf(world.daemon, ['lock.*']);
  const agents = await Promise.all(Array.from({ length: 20 }, (_, i) => world.daemon.session({ agent: `agent-${i}` })));
  await Promise.all(
    agents.map(async (wire, i) => {
      for (let round = 0; round < 4; round++) {
        const names = (i + round) % 2 === 0 ? [x, y] : [y, x];
        const got = await wire.call('lock.acquire', { locks: names.map((name) => ({ name })), waitMs: 60_000 });
        // One in five gives up while it waits, or at once.
        if ((i + round) % 5 > 0) {
          if (got.state === 'waiting') await granted(wire, got.grant, 25_000);
          await sleep(2);
        }
        await wire.call('lock.release', { grant: got.grant });
      }
    }),
  );
  const holds = new Map<string, Set<string>>();
  for (const { event } of watcher.events()) {
    const { lock, locks, grant } = event.data;
    if (![x, y].includes(lock)) continue;
    expect(locks).toHaveLength(2);
    const mine = holds.get(grant) ?? new Set();
    holds.set(grant, mine);
    if (event.type === 'lock.granted') mine.add(lock);
    if (event.type === 'lock.released') mine.delete(lock);
    // Its other half stands right behind the first one, in the same step: nobody else is ever in between.
    const others = [...holds].filter(([other, held]) => other !== grant && held.size > 0);
    if (mine.size > 0) expect(others).toEqual([]);
  }
  expect(await leftoversOf(world, x, y)).toEqual([]);
  await Promise.all(agents.map((wire) => wire.close()));
});

test('L16: fifty waiters are served in their order although the pub/sub connections of Redis are killed meanwhile', async () => {
  const name = fresh();
  const client = world.redis.client();
  const held = await take(a, name);
  const agents = await Promise.all(Array.from({ length: 50 }, (_, i) => world.daemon.session({ agent: `w${i}` })));
  const order: number[] = [];
  const waits: Any[] = [];
  for (const wire of agents) waits.push(await queueUp(wire, name));
  expect(waits.map(({ place }) => place)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
  const killer = setInterval(() => void client.call('CLIENT', 'KILL', 'TYPE', 'pubsub').catch(() => undefined), 100);
  const started = performance.now();
  await release(a, held);
  await Promise.all(
    agents.map(async (wire, i) => {
      await granted(wire, waits[i].grant);
      order.push(i);
      await sleep(10);
      await wire.call('lock.release', { grant: waits[i].grant });
    }),
  );
  clearInterval(killer);
  expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i));
  // 50 × 10 ms of holding; nobody waited for a lease or a sweep.
  expect(performance.now() - started).toBeLessThan(2000);
  client.disconnect();
  await Promise.all(agents.map((wire) => wire.close()));
});

test('L18: the dead and the cut off are passed over at once, the living keep their places', async () => {
  const name = fresh();
  const held = await take(a, name);
  const dead = await Promise.all(Array.from({ length: 60 }, () => world.daemon.session({ agent: 'dead' })));
  for (const wire of dead) await queueUp(wire, name);
  const absent = await world.daemon.session({ agent: 'absent' });
  const place = await queueUp(absent, name);
  const last = await queueUp(b, name);
  for (const wire of [...dead, absent]) wire.cut();
  // The daemon has noticed when the lists say so.
  await world.daemon.wire().then(async (wire) => {
    for (;;) {
      const client = world.redis.client();
      const away = await Promise.all(
        [...dead, absent].map(({ opened }) => client.hget(`sb:{default}:session:${opened.session}`, 'away')),
      );
      client.disconnect();
      if (away.every((one) => one === '1')) break;
      await sleep(10);
    }
    await wire.close();
  });
  const started = performance.now();
  await release(a, held);
  await granted(b, last.grant);
  expect(performance.now() - started).toBeLessThan(1000);
  // It comes back in time and is first in line again, ahead of whoever asked after it.
  const after = await queueUp(c, name);
  const { session, key } = absent.opened;
  const back = await world.daemon.session({ agent: 'absent', resume: { session, key } });
  expect(back.opened.holdings).toMatchObject([{ lease: `lock:${place.grant}`, kind: 'lock', name, state: 'waiting' }]);
  expect(back.opened.holdings[0].fence).toBeUndefined();
  await world.daemon.wire().then((wire) => wire.close());
  await release(b, last);
  await granted(back, place.grant);
  expect(pushesOf(c, after.grant)).toEqual([]);
  await release(back, place);
  await granted(c, after.grant);
  await release(c, after);
});

test('a waiter that comes back to a free lock gets it, behind the reply that showed it waiting', async () => {
  const name = fresh();
  const held = await take(a, name);
  const waiter = await world.daemon.session({ agent: 'w' });
  const wait = await queueUp(waiter, name);
  waiter.cut();
  const watcher = await watcherOf(world.daemon);
  await sleep(50);
  await release(a, held);
  const { session, key } = waiter.opened;
  const back = await world.daemon.session({ agent: 'w', resume: { session, key } });
  expect(back.opened.holdings).toMatchObject([{ state: 'waiting' }]);
  const push = await granted(back, wait.grant);
  const at = (fits: (line: Any) => boolean): number => back.lines.findIndex(fits);
  expect(at((line) => line === push)).toBeGreaterThan(at((line) => line.ok?.resumed === true));
  expect(pushesOf(back, wait.grant)).toHaveLength(1);
  await release(back, wait);
  await until(() => storyOf(watcher, name).length >= 3);
  expect(storyOf(watcher, name)).toEqual([`released:${held.grant}`, `granted:${wait.grant}`, `released:${wait.grant}`]);
});

test('hundreds of readers behind a writer are all granted, however many a script may grant', async () => {
  const name = fresh();
  const held = await take(a, name);
  const waits = await Promise.all(Array.from({ length: 700 }, () => queueUp(b, name, { mode: 'shared' })));
  await release(a, held);
  await Promise.all(waits.map(({ grant }) => granted(b, grant)));
  expect((await a.call('lock.get', { name })).inUse).toBe(700);
  await Promise.all(waits.map((wait) => release(b, wait)));
  expect(await leftoversOf(world, name)).toEqual([]);
});

test('a lock has a bound of waiters: one more is HELD at once, as one that would not wait', async () => {
  const small = await startWorld({ 'lock.waitersMax': 3 });
  try {
    const [one, other] = [await small.daemon.session(), await small.daemon.session()];
    const [name, free] = ['path:crowded/file', 'path:crowded/other'];
    await take(one, name);
    const waits = [];
    for (let i = 0; i < 3; i++) waits.push(await queueUp(other, name));
    const refused = await other.refused('lock.acquire', { name, waitMs: 60_000 });
    expect(refused).toMatchObject({
      code: 'HELD',
      retry: true,
      message: expect.stringContaining('wait'),
      details: { lock: name, place: 4, waiting: 3, holder: { session: one.opened.session } },
    });
    // Those that wait are asked again and stay; a lock beside it, whose directories they wait at, has room.
    expect((await queueUp(other, name, { grant: waits[0].grant })).place).toBe(1);
    await take(one, free);
    await queueUp(other, free);
    await other.call('lock.release', { grant: waits[0].grant });
    await queueUp(other, name);
  } finally {
    await small.stop();
  }
});
