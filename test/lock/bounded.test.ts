import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Any, fresh, granted, type Session, startWorld, take, type World, waitEnded } from './support.js';

// The story: a step of a script was one request, whatever it took. Three hundred requests for fifty deep paths each, let in
// by one release, were 150,000 writes and as many bytes of events as the square of the paths, while Redis served nobody.

let world: World;
let a: Session;
let b: Session;
beforeAll(async () => {
  world = await startWorld();
  a = await world.daemon.session({ agent: 'a' });
  b = await world.daemon.session({ agent: 'b' });
});
afterAll(() => world.stop());

const requests = 16;
/** Fifty paths of nine names each: as many nodes as a request may take. */
const deep = (root: string): string[] => Array.from({ length: 50 }, (_, i) => `${root}/${i}/c/d/e/f/g/h/i`);
const asks = (session: Session, locks: Any[], more: Any = {}): Promise<Any[]> =>
  Promise.all(
    Array.from({ length: requests }, (_, i) =>
      session.call('lock.acquire', { locks, owner: `${i}`, waitMs: 60_000, ...more }),
    ),
  );

/** The largest entries of the log with events of `type`: events, and bytes of them. */
async function largest(type: string): Promise<{ events: number; bytes: number }> {
  const client = world.redis.client();
  let [events, bytes] = [0, 0];
  for (const [, fields] of await client.xrange('sb:{default}:log', '-', '+')) {
    const rows = fields[fields.indexOf('events') + 1]!;
    const count = rows.split('\n').filter((row) => row.startsWith(`${type}\t`)).length;
    if (count === 0) continue;
    events = Math.max(events, count);
    bytes = Math.max(bytes, rows.length);
  }
  client.disconnect();
  return { events, bytes };
}

test('a release that lets many in grants so many in a script as their nodes allow, and the rest goes on by itself', async () => {
  const root = fresh('path:wide');
  const held = await take(a, `${root}/**`);
  const waits = await asks(
    b,
    deep(root).map((name) => ({ name, mode: 'shared' })),
  );
  await a.call('lock.release', { grant: held.grant });
  for (const { grant } of waits) await granted(b, grant);
  const { events, bytes } = await largest('lock.granted');
  expect(events).toBeLessThanOrEqual(4 * 50);
  expect(bytes).toBeLessThan(200_000);
  await Promise.all(waits.map(({ grant }) => b.call('lock.release', { grant })));
});

test('the first event of a grant names all its locks, every other one some of them and how many more there are', async () => {
  const locks = Array.from({ length: 12 }, () => fresh('named'));
  const watcher = await world.daemon.wire();
  await watcher.call('feed.subscribe', { types: ['lock.granted'] });
  const narrow = await world.daemon.wire();
  await narrow.call('feed.subscribe', { types: ['lock.>'], where: { lock: locks[11] } });
  const { grant } = await b.call('lock.acquire', { locks: locks.map((name) => ({ name })) });
  await watcher.until(() => watcher.events().length === 12);
  const told = watcher.events().map(({ event }) => event.data);
  expect(told.map(({ lock }) => lock)).toEqual(locks);
  expect(told[0].locks).toEqual(locks);
  expect(told[0]).not.toHaveProperty('locksMore');
  for (const data of told.slice(1)) expect(data).toMatchObject({ locks: locks.slice(0, 8), locksMore: 4, grant });
  await b.call('lock.release', { grant });
  await narrow.until(() => narrow.events().length === 2);
  expect(narrow.events().map(({ event }) => [event.type, event.data.locksMore])).toEqual([
    ['lock.granted', 4],
    ['lock.released', 4],
  ]);
});

test('waits that are over at one moment end so many in a script as their nodes allow', async () => {
  const root = fresh('path:late');
  const held = await take(a, `${root}/**`);
  const waits = await asks(
    b,
    deep(root).map((name) => ({ name, mode: 'shared' })),
  );
  const client = world.redis.client();
  const due = 'sb:{default}:lockDue';
  const rows = waits.flatMap(({ grant }) => [1, `w${grant}`]);
  await client.zadd(due, 'XX', ...(rows as [number, string]));
  client.disconnect();
  for (const { grant } of waits) expect((await waitEnded(b, grant)).reason).toBe('timeout');
  expect((await largest('lock.waitEnded')).events).toBeLessThanOrEqual(4 * 50);
  await a.call('lock.release', { grant: held.grant });
});

test('a break takes from so many holders in a script as their nodes allow, and from all of them in the end', async () => {
  const root = fresh('path:broken');
  const names = deep(root);
  const held = await asks(
    b,
    names.map((name) => ({ name, mode: 'shared' })),
    { waitMs: 0 },
  );
  const { broken } = await a.call('lock.break', { name: names[0], reason: 'stuck' });
  expect(new Set(broken.map(({ grant }: Any) => grant))).toEqual(new Set(held.map(({ grant }) => grant)));
  expect((await largest('lock.lost')).events).toBeLessThanOrEqual(4 * 50);
});

test('a lock that becomes one of another kind ends so many waits in a script as their nodes allow', async () => {
  const [root, name] = [fresh('path:kind'), fresh()];
  const held = await take(a, `${root}/**`);
  const locks = [name, ...deep(root).slice(1)].map((each) => ({ name: each, mode: 'shared' }));
  const waits = await asks(b, locks);
  await a.call('lock.define', { name, capacity: 2, change: true });
  for (const { grant } of waits) expect((await waitEnded(b, grant)).reason).toBe('neverFits');
  // Who is found unfit at the front of a queue is no look at a request: twice as much of that is done.
  expect((await largest('lock.waitEnded')).events).toBeLessThanOrEqual(8 * 50);
  await a.call('lock.define', { name, change: true });
  await a.call('lock.release', { grant: held.grant });
});
