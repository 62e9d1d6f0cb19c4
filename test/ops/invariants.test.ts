import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { checkInvariants } from '../../src/ops/invariants.js';
import { startWorld, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';

let world: World;
let redis: Redis;
let wire: Wire & { opened: Any };
const at = (key: string): string => `sb:{default}:${key}`;
/** Clocks that are late are a matter of their own below. */
const check = (bounds = {}) => checkInvariants(redis, 'default', { lateMs: 60_000, ...bounds });
const ids = async (): Promise<string[]> => [...new Set((await check()).findings.map(({ id }) => id))].sort();

beforeAll(async () => {
  // Sweeps would mend or remove some of what is broken here.
  world = await startWorld({ 'sweep.everyMs': 60_000 });
  redis = world.redis.client();
  wire = await world.daemon.session({ agent: 'a', ttlMs: 60_000 });
});
afterAll(() => world.stop());

/** One task of every state, in kinds and tenants. */
async function everyState(): Promise<void> {
  const put = (queue: string, ...tasks: Any[]) =>
    wire.call('queue.enqueue', { queue, tasks: tasks.map((task) => ({ payload: 1, ...task })) });
  await put(
    'q',
    { task: 'done', key: 'k' },
    { task: 'plain' },
    { task: 'gone' },
    { task: 'held', leaseMs: 50_000, timeoutMs: 40_000 },
  );
  const { tasks } = await wire.call('queue.claim', { queue: 'q', count: 4 });
  const [done, plain, gone] = tasks;
  await wire.call('queue.complete', { tasks: [done, plain].map(({ task, fence }) => ({ task, fence })) });
  await wire.call('queue.fail', {
    tasks: [{ task: gone.task, fence: gone.fence, retry: false, error: { message: 'no' } }],
  });
  await put(
    'q',
    { task: 'ready', kind: 'x', tenant: 't' },
    { task: 'high', priority: 80 },
    { task: 'later', delayMs: 50_000 },
  );
  await put('other', { task: 'elsewhere', deadlineMs: 50_000 });
  await put('other', { task: 'stopped' });
  await wire.call('queue.cancel', { task: 'stopped' });
  await wire.call('lock.acquire', { name: 'mutex', grant: 'kept', leaseMs: 50_000 });
  await wire.call('lock.acquire', { name: 'mutex', grant: 'waits', waitMs: 50_000 });
  await wire.call('lock.acquire', { name: 'let go', grant: 'given' });
  await wire.call('lock.release', { grant: 'given' });
  await wire.call('limit.define', { name: 'l', kind: 'window', dimensions: { concurrency: { amount: 2 } } });
  const reserve = (reservation: string): Promise<Any> =>
    wire.call('limit.reserve', { name: 'l', reservation, cost: { concurrency: 1 }, leaseMs: 50_000, waitMs: 50_000 });
  for (const reservation of ['settled', 'kept', 'waits']) await reserve(reservation);
  await wire.call('limit.settle', { reservation: 'settled' });
  await reserve('queued');
  await wire.call('once.begin', { key: 'key', fingerprint: 'f' });
}

beforeEach(async () => {
  // Between the tests the namespace is as it was made; the daemon reads the log again from where it is.
  const keys = await redis.keys(at('*'));
  const stay = [
    'meta',
    'log',
    'logIndex',
    'epochs',
    'daemons',
    'ingress',
    'sessions',
    'sessionNames',
    `session:${wire.opened.session}`,
  ].map(at);
  const gone = keys.filter((key) => !stay.includes(key));
  if (gone.length > 0) await redis.del(...gone);
  await everyState();
});

describe('a namespace as it should be', () => {
  test('has no findings, and everything was looked at', async () => {
    const { findings, looked, skipped } = await check();
    expect(findings).toEqual([]);
    expect(skipped).toEqual([]);
    expect(looked.queues).toBe(2);
    expect(looked.rows).toBe(10);
    expect(looked.keys).toBeGreaterThan(30);
    expect(looked.entries).toBeGreaterThan(5);
  });

  test('has none while work goes on either', async () => {
    const worker = await world.daemon.session({ agent: 'w', ttlMs: 60_000 });
    await worker.call('queue.work', { queue: 'busy', credit: 20 });
    let seen = 0;
    const over = Date.now() + 1500;
    const work = async (): Promise<void> => {
      while (Date.now() < over) {
        await wire.call('queue.enqueue', {
          queue: 'busy',
          tasks: [{ payload: 1 }, { payload: 2, kind: 'k', tenant: 't' }],
        });
        const tasks = worker.tasks().slice(seen);
        seen += tasks.length;
        if (tasks.length > 0)
          await worker.call('queue.complete', { tasks: tasks.map(({ task, fence }: Any) => ({ task, fence })) });
      }
    };
    // Keys go while they are looked at, as with retention.
    const tidy = async (): Promise<void> => {
      while (Date.now() < over) await wire.call('queue.purge', { queue: 'busy', state: 'completed' });
    };
    const done = Promise.all([work(), tidy()]);
    while (Date.now() < over) expect((await check()).findings).toEqual([]);
    await done;
    await worker.close();
    await until(async () => (await redis.zcard(at('sessions'))) === 1);
  });

  test('is left alone: nothing is written', async () => {
    // `seen` moves by itself: the daemon's sweeps sign every turn with it.
    const meta = async () => ({ ...(await redis.hgetall(at('meta'))), seen: '' });
    const before = await meta();
    await check();
    expect(await meta()).toEqual(before);
  });

  test('says what its bounds left out', async () => {
    const { skipped, looked } = await check({ queues: 1, rows: 1, holdings: 3, keys: 1, entries: 2 });
    expect(looked.rows).toBe(1);
    expect(skipped).toContain('queues after the first 1');
    expect(skipped).toContain('the log before its last 2 entries');
    expect(skipped).toContain('sessions');
    expect(skipped).toContain('reservations of limits: more than 3 holdings');
    expect(skipped).toContain('the rest of waiting of other');
  });

  test('one that nobody has opened has none', async () => {
    expect((await checkInvariants(redis, 'nobody')).findings).toEqual([]);
  });
});

const fenceOf = async (task: string): Promise<string> => String((await wire.call('queue.get', { task })).fence);

/** One more in a number that the limit keeps. */
const oneMore = (path: string): Promise<unknown> =>
  redis.eval(
    `local now = cmsgpack.unpack(redis.call('HGET', KEYS[1], 'now'))
    now.${path} = now.${path} + 1
    return redis.call('HSET', KEYS[1], 'now', cmsgpack.pack(now))`,
    1,
    at('limit:l'),
  );

/** What is broken, and the findings that it must lead to; the first of them is the point. */
const breaks: [string, () => Promise<unknown>, string[]][] = [
  ['a counter that is off', () => redis.hincrby(at('counts:q'), 'w:x', 1), ['counters']],
  ['a tenant without its turn', () => redis.del(at('tenants:1:q:x')), ['lanes']],
  ['a ready task in no lane', () => redis.del(at('lane:1:1:q:x:t')), ['lane', 'lanes']],
  ['a queue that nobody will wake', () => redis.zrem(at('wake'), 'q'), ['wake']],
  ['a place counter that fell back', () => redis.hset(at('queue:q'), 'seq', 0), ['seq']],
  ['a set member without a task', () => redis.zadd(at('dead:q'), 1, 'nothing'), ['record']],
  [
    'a task in the set of another queue',
    () => redis.zadd(at('waiting:q'), 1, 'elsewhere'),
    ['queue', 'counters', 'lane', 'lanes'],
  ],
  ['a task in the set of another state', () => redis.zadd(at('cancelled:q'), 1, 'ready'), ['state']],
  ['a task that no set knows', () => redis.zrem(at('dead:q'), 'gone'), ['orphan']],
  ['an attempt that its session does not hold', () => redis.zrem(at(`held:${wire.opened.session}`), 'theld'), ['held']],
  ['a lease that will not run out', () => redis.zrem(at('leases'), 'lheld'), ['clocks']],
  ['a clock of a task that does not run', () => redis.zadd(at('leases'), Date.now() + 60_000, 'lready'), ['stray']],
  ['a holding that is none', () => redis.zadd(at(`held:${wire.opened.session}`), 1, 'tready'), ['holding']],
  ['a lock that is none', () => redis.zadd(at(`held:${wire.opened.session}`), 1e15, 'lnone'), ['holding']],
  ['a reservation that is over', () => redis.zadd(at(`held:${wire.opened.session}`), 1, 'rsettled'), ['holding']],
  ['a slot of a limit that no reservation has', () => oneMore('dims.concurrency.reserved'), ['reserved']],
  ['concurrency that nobody is going to bring back', () => oneMore('dims.concurrency.total'), ['reserved']],
  ['a count of waiters that is off', () => oneMore('waiting'), ['queued']],
  ['a waiter that stands in no queue', () => redis.del(at('limitWaits:l')), ['queued']],
  ['a reservation whose lease will not run out', () => redis.zrem(at('limitDue'), 'ekept'), ['limitClock']],
  ['a wait for a limit that will not end', () => redis.zrem(at('limitDue'), 'wqueued'), ['limitClock']],
  [
    'a reservation that nobody holds',
    () => redis.zrem(at(`held:${wire.opened.session}`), 'rkept'),
    ['reserved', 'orphan'],
  ],
  ['a once key without its record', () => redis.del(at('once:key')), ['holding']],
  ['a once key that no clock ends', () => redis.zrem(at('onceDue'), 'key'), ['orphan']],
  ['a holding of no kind', () => redis.zadd(at(`held:${wire.opened.session}`), 1, 'xy'), ['holding']],
  ['a session without a record', () => redis.zadd(at('sessions'), Date.now() + 60_000, 'nobody'), ['session']],
  ['a stale run', () => redis.set(at('run:nothing'), 'x'), ['orphan']],
  ['a key of somebody else', () => redis.set(at('mine'), 'x'), ['page']],
  ['a key of another type', () => redis.sadd(at('once:x'), 'x'), ['page']],
  ['a key that ends by itself', () => redis.expire(at('task:ready'), 1000), ['ttl']],
  ['ids of published events out of step', () => redis.hset(at('published'), 'x', 'a:1'), ['published']],
];

describe('what is broken is found', () => {
  test.each(breaks)('%s', async (_, run, expected) => {
    expect(await ids()).toEqual([]);
    await run();
    const found = await ids();
    expect(found).toContain(expected[0]);
    expect(found.filter((id) => !expected.includes(id))).toEqual([]);
    for (const { message, advice } of (await check()).findings) {
      expect(message).toMatch(/\S/);
      expect(advice).toMatch(/\S/);
    }
    await redis.del(at('mine'), at('once:x'));
    await redis.zrem(at('sessions'), 'nobody');
  });

  test('a task whose session is gone has no holder', async () => {
    const other = await world.daemon.session({ agent: 'b', ttlMs: 60_000 });
    await other.call('queue.claim', { queue: 'other', count: 1 });
    expect(await fenceOf('elsewhere')).toMatch(/\d+/);
    await redis.zrem(at('sessions'), (other as Any).opened.session);
    await redis.zrem(at('sessionNames'), (other as Any).opened.session);
    await redis.del(at(`session:${(other as Any).opened.session}`));
    expect(await ids()).toEqual(['holder', 'orphan']);
    await redis.del(at(`held:${(other as Any).opened.session}`));
    other.cut();
  });

  test('clocks that nobody looks at any more', async () => {
    await redis.zadd(at('timers'), Date.now() - 20_000, 'delsewhere');
    const { findings } = await checkInvariants(redis, 'default', { lateMs: 5000 });
    expect(findings.map(({ id }) => id)).toEqual(['late']);
    expect(findings[0]!.message).toContain('timers delsewhere');
    await redis.zrem(at('timers'), 'delsewhere');
    for (const set of ['lockDue', 'limitDue', 'limitWake', 'onceDue']) {
      await redis.zadd(at(set), Date.now() - 20_000, 'eforgotten');
      const late = await checkInvariants(redis, 'default', { lateMs: 5000 });
      expect(late.findings.map(({ message }) => message)).toEqual([expect.stringContaining(set)]);
      await redis.zrem(at(set), 'eforgotten');
    }
  });

  test('a hole in the log, and a head that is not where the counters say', async () => {
    const entries = await redis.xrevrange(at('log'), '+', '-', 'COUNT', 3);
    await redis.xdel(at('log'), entries[1]![0]);
    expect(await ids()).toEqual(['hole']);
    await redis.xdel(at('log'), entries[0]![0]);
    expect(await ids()).toContain('head');
  });
});
