import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Client, openRedis, type Purpose } from '../../src/redis/connection.js';
import { toRefusal } from '../../src/redis/namespace.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';

/** What ioredis does with the options of each purpose when the link is hurt. */
const timeoutMs = 400;
let redis: TestRedis;
let proxy: FaultProxy;
const clients: Client[] = [];
beforeAll(async () => {
  redis = await startRedis();
  proxy = await startProxy(redis.path);
});
afterEach(() => {
  proxy.heal();
  proxy.cut();
  for (const client of clients.splice(0)) client.disconnect();
});
afterAll(async () => {
  await proxy.close();
  await redis.stop();
});

async function open(purpose: Purpose): Promise<Client> {
  const client = openRedis({ kind: 'url', url: `redis://127.0.0.1:${proxy.port}` }, purpose, timeoutMs);
  client.on('error', () => undefined);
  clients.push(client);
  await client.connect();
  return client;
}

const counter = async (key: string): Promise<number> => Number(await redis.client().get(key));
const outcome = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'ok',
    (error) => (toRefusal(error, 'x') as { code?: string }).code ?? String(error),
  );

describe('the connection for commands', () => {
  test('a write whose reply was lost is never sent again, and ends within its timeout', async () => {
    const client = await open('commands');
    const gone = proxy.swallowReply('lost-once');
    const askedAt = performance.now();
    expect(await outcome(client.incr('lost-once'))).toBe('TIMEOUT');
    expect(performance.now() - askedAt).toBeLessThan(timeoutMs + 2000);
    await gone;
    await until(() => client.status === 'ready');
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await counter('lost-once')).toBe(1);
  });

  test('many in flight when the link is cut: every one ends, none twice', async () => {
    const client = await open('commands');
    proxy.delay(30);
    const calls = Array.from({ length: 200 }, () => outcome(client.incr('many')));
    setTimeout(() => proxy.cut(), 40);
    const ends = await Promise.all(calls);
    proxy.delay(0);
    const ok = ends.filter((end) => end === 'ok').length;
    // All were sent: of none can it be said that it did not happen.
    expect(ends.filter((end) => end !== 'ok' && end !== 'TIMEOUT')).toEqual([]);
    await until(() => client.status === 'ready');
    const done = await counter('many');
    expect(done).toBeGreaterThanOrEqual(ok);
    expect(done).toBeLessThanOrEqual(200);
  });

  test('fails at once while Redis is away, and comes back by itself', async () => {
    const client = await open('commands');
    proxy.refuse();
    proxy.cut();
    await until(() => client.status !== 'ready');
    const askedAt = performance.now();
    expect(await outcome(client.ping())).toBe('UNAVAILABLE');
    expect(performance.now() - askedAt).toBeLessThan(timeoutMs);
    proxy.heal();
    await until(async () => (await outcome(client.ping())) === 'ok');
  });

  test("a silent link is a timeout, not for ever; the answers that come later are nobody else's", async () => {
    const client = await open('commands');
    await redis.client().mset('a', 'A', 'b', 'B');
    proxy.stall('down');
    expect(await outcome(client.get('a'))).toBe('TIMEOUT');
    proxy.heal();
    expect(await client.get('b')).toBe('B');
  });

  test('a link cut after some bytes of a reply ends what was asked, and what follows is whole', async () => {
    await redis.client().set('large', 'x'.repeat(500_000));
    const client = await open('commands');
    client.disconnect();
    await until(() => client.status === 'end');
    proxy.cutAfter(100_000, 'down');
    await client.connect();
    expect(await outcome(client.get('large'))).toBe('TIMEOUT');
    await until(async () => (await client.get('large').catch(() => ''))?.length === 500_000);
  });
});

describe('the connection for blocking reads', () => {
  test('waits through an outage instead of failing: its caller has a deadline of its own', async () => {
    const client = await open('reader');
    proxy.refuse();
    proxy.cut();
    const read = client.xread('BLOCK', 5000, 'STREAMS', 'stream', '0-0');
    await new Promise((resolve) => setTimeout(resolve, 200));
    proxy.heal();
    await redis.client().xadd('stream', '1-0', 'f', 'v');
    expect(await read).toEqual([['stream', [['1-0', ['f', 'v']]]]]);
  });
});
