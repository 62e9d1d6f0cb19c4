import { afterEach, expect, test } from 'vitest';
import {
  type Any,
  freeze,
  fresh,
  granted,
  queueUp,
  type Session,
  type Settings,
  startWorld,
  take,
  type World,
  watcherOf,
} from './support.js';

let world: World;
afterEach(() => world.stop());

/** The grace after an epoch that was not a clean stop is at least the default time to live. */
const graceMs = 1500;
const settings: Settings = { 'session.ttlMs': graceMs };
const aof = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

const begin = async (args: string[] = []): Promise<{ a: Session; b: Session }> => {
  world = await startWorld(settings, args);
  return { a: await world.daemon.session({ agent: 'a' }), b: await world.daemon.session({ agent: 'b' }) };
};
const flush = async (): Promise<void> => {
  const client = world.redis.client();
  await client.flushall();
  client.disconnect();
};
const newSession = async (wire: Session): Promise<void> => {
  await wire.next(({ op, kind }) => op === 'lost' && kind === 'session');
  await wire.call('session.open', { agent: 'again' });
};

test('L15 (a): after FLUSHALL fences go on rising, the epoch changes, and the feed says so', async () => {
  const { a, b } = await begin();
  const watcher = await watcherOf(world.daemon, ['epoch.*', 'lock.*']);
  const name = fresh();
  const first = await take(a, name);
  await flush();
  const gap = await watcher.next(({ op }) => op === 'gap');
  expect(gap.reason).toBe('reset');
  await newSession(b);
  const refused = await b.refused('lock.acquire', { name });
  expect(refused).toMatchObject({ code: 'HELD', details: { why: 'grace' } });
  expect(refused.afterMs).toBeLessThanOrEqual(graceMs);
  const wait = await queueUp(b, name);
  const second = await granted(b, wait.grant);
  expect(second.fence).toBeGreaterThan(first.fence);
  expect(second.epoch).not.toBe(first.epoch);
});

test('L15 (b): after a kill -9 of Redis with an append-only file fences go on rising', async () => {
  const { a, b } = await begin(aof);
  const [name, other] = [fresh(), fresh()];
  const first = await take(a, name);
  expect(first.durability).toBe('aof');
  await world.redis.kill();
  await world.redis.restart();
  const wait: Any = await untilUp(() => b.call('lock.acquire', { name: other, waitMs: 60_000, grant: 'g1' }));
  const { fence, epoch } = wait.state === 'held' ? wait : await granted(b, wait.grant);
  expect(fence).toBeGreaterThan(first.fence);
  expect(epoch).not.toBe(first.epoch);
});

test('L15 (d): a lock whose record was collected long ago gives a higher fence', async () => {
  const { a, b } = await begin();
  const name = fresh();
  const first = await take(a, name);
  await a.call('lock.release', { grant: first.grant });
  const client = world.redis.client();
  // What the key's own time to live does after a minute.
  expect(await client.pttl(`sb:{default}:lock:${name}`)).toBeGreaterThan(0);
  expect(await client.del(`sb:{default}:lock:${name}`, `sb:{default}:grant:${first.grant}`)).toBe(2);
  client.disconnect();
  expect(await a.refused('lock.release', { grant: first.grant })).toMatchObject({ code: 'NOT_OWNER' });
  const second = await take(b, name);
  expect(second.fence).toBeGreaterThan(first.fence);
});

test('in the grace a holder claims back what the store has lost, under a higher fence; nobody else gets it', async () => {
  const { a, b } = await begin();
  const name = fresh();
  const first = await take(a, name);
  await flush();
  await newSession(b);
  const wait = await queueUp(b, name);
  await newSession(a);
  const back = await take(a, name, { grant: first.grant, reclaim: first.fence });
  expect(back.state).toBe('held');
  expect(back.fence).toBeGreaterThan(first.fence);
  // Claimed twice is claimed once; and what somebody has is not there for another claim.
  expect(await take(a, name, { grant: first.grant, reclaim: first.fence })).toEqual(back);
  expect(await b.refused('lock.acquire', { name, grant: 'mine too', reclaim: first.fence })).toMatchObject({
    code: 'STALE_FENCE',
    details: { yours: first.fence, current: back.fence },
  });
  await a.call('lock.release', { grant: back.grant });
  const second = await granted(b, wait.grant);
  expect(second.fence).toBeGreaterThan(back.fence);
  expect(await a.refused('lock.acquire', { name, grant: 'too late', reclaim: first.fence })).toMatchObject({
    code: 'STALE_FENCE',
  });
  expect(
    await a.refused('lock.acquire', { name: fresh(), grant: 'absurd', reclaim: Number.MAX_SAFE_INTEGER }),
  ).toMatchObject({
    code: 'STALE_FENCE',
  });
});

test.each([
  ['the same daemon', false],
  ['another daemon', true],
])(
  'after FLUSHALL newcomers wait for the longest session there was, of %s, though nothing of it is stored',
  async (_, elsewhere) => {
    const { b } = await begin();
    const daemon = elsewhere ? await world.another() : world.daemon;
    const ttlMs = 4 * graceMs;
    const a = await daemon.session({ agent: 'a', ttlMs });
    const name = fresh();
    await take(a, name);
    await a.call('ping');
    const sure = performance.now() + ttlMs * 0.98;
    freeze(a);
    await flush();
    await newSession(b);
    const wait = await queueUp(b, name);
    await granted(b, wait.grant);
    expect(performance.now()).toBeGreaterThan(sure);
  },
);

test('after FLUSHALL a session that ended long before holds nobody back', async () => {
  const { a, b } = await begin();
  const long = await world.daemon.session({ agent: 'long', ttlMs: 2 * graceMs });
  await long.call('session.close', {});
  // By the clock of its own promise, which nothing announces.
  await new Promise((resolve) => setTimeout(resolve, 2 * graceMs + 500));
  await flush();
  await newSession(b);
  const refused = await b.refused('lock.acquire', { name: fresh() });
  expect(refused.afterMs).toBeLessThanOrEqual(graceMs);
  await a.close();
});

test('a Redis that restarts with its data keeps every holder, and newcomers wait for the grace', async () => {
  const { a, b } = await begin(['--appendonly', 'yes', '--appendfsync', 'always']);
  const [name, other] = [fresh(), fresh()];
  const held = await take(a, name);
  await world.redis.kill();
  await world.redis.restart();
  const again: Any = await untilUp(() => take(a, name, { grant: held.grant, reclaim: held.fence }));
  expect(again).toMatchObject({ state: 'held', fence: held.fence });
  expect(again.epoch).not.toBe(held.epoch);
  const wait = await queueUp(b, other);
  expect(wait.held).toMatchObject({ why: 'grace' });
  await granted(b, wait.grant);
  expect((await b.refused('lock.acquire', { name })).code).toBe('HELD');
});

test('after a clean stop of the daemon there is no grace', async () => {
  const { a } = await begin(['--appendonly', 'yes', '--appendfsync', 'always']);
  const name = fresh();
  const held = await take(a, name);
  await a.call('lock.release', { grant: held.grant });
  await world.daemon.stop();
  await world.redis.restart();
  const daemon = await world.another();
  const b = await daemon.session({ agent: 'b' });
  const next = await take(b, name);
  expect(next.state).toBe('held');
  expect(next.epoch).not.toBe(held.epoch);
});

test('a stop mark that another daemon went on after is void', async () => {
  const { a } = await begin(['--appendonly', 'yes', '--appendfsync', 'always']);
  const second = await world.another();
  const b = await second.session({ agent: 'b' });
  await a.close();
  await world.daemon.stop();
  await take(b, fresh());
  await world.redis.kill();
  await world.redis.restart();
  const error: Any = await untilUp(() => b.refused('lock.acquire', { name: fresh() }));
  expect(error).toMatchObject({ code: 'HELD', details: { why: 'grace' } });
});

/** Again until Redis answers. */
async function untilUp<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      const answer = (await ask()) as Any;
      if (answer?.code !== 'UNAVAILABLE' && answer?.code !== 'TIMEOUT') return answer;
    } catch (error) {
      if (!['UNAVAILABLE', 'TIMEOUT'].includes((error as Any).code)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
