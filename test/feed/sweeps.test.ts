import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { publish, read, subscribe } from '../../src/feed/index.js';
import * as forgetPublished from '../../src/sweeps/forget-published.js';
import * as trimLog from '../../src/sweeps/trim-log.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { call } from './call.js';
import { FakeSink, upTo, World } from './world.js';

let redis: TestRedis;
let world: World;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  world = await World.start(redis);
});
afterEach(async () => {
  await world.stop();
  await redis.client().flushall();
});

const day = 86_400_000;
const wide = { ageMaxMs: day, bytesMax: 1 << 30 };
const meta = async (field: string): Promise<number> => Number(await redis.client().hget('sb:{default}:meta', field));
const first = async (): Promise<number> => {
  const [row] = (await redis.client().xrange('sb:{default}:log', '-', '+', 'COUNT', 1)) as [string, string[]][];
  return row ? Number.parseInt(row[0], 10) - Number(row[1][7]) + 1 : 0;
};

/** As if the log had been written long ago: index rows and entries keep their order. */
async function age(ms: number): Promise<void> {
  const rows = await redis.client().zrange('sb:{default}:logIndex', '0', '-1');
  for (const row of rows) {
    const [offset, at, bytes] = row.split(':').map(Number) as [number, number, number];
    await redis.client().zrem('sb:{default}:logIndex', row);
    await redis.client().zadd('sb:{default}:logIndex', offset, `${offset}:${at - ms}:${bytes}`);
  }
  await redis.client().hset('sb:{default}:meta', 'second', Math.floor(((await meta('second')) * 1000 - ms) / 1000));
}

describe('trim-log', () => {
  test('within the bounds nothing goes', async () => {
    await world.emitMany(100);
    expect(await trimLog.runOnce(world.namespace, wide)).toBe(0);
    expect(await first()).toBe(1);
  });

  test('by count', async () => {
    await world.stop();
    world = await World.start(redis, { settings: { log: { eventsMax: 1000 } } });
    await world.emitMany(1050);
    const head = await meta('offset');
    expect(await trimLog.runOnce(world.namespace, wide)).toBe(head - 1000);
    expect([await meta('tail'), await first()]).toEqual([head - 1000, head - 999]);
    await trimLog.runOnce(world.namespace, wide);
    expect(await meta('tail')).toBe(head - 1000);
  });

  test('by age: whole seconds go, and at last everything', async () => {
    await world.emitMany(50);
    await age(10_000);
    await world.emitMany(50, 'a.b', 51);
    await trimLog.runOnce(world.namespace, { ...wide, ageMaxMs: 5000 });
    expect(await meta('tail')).toBe(51);
    expect(await first()).toBe(52);
    await age(10_000);
    await trimLog.runOnce(world.namespace, { ...wide, ageMaxMs: 5000 });
    expect(await meta('tail')).toBe(await meta('offset'));
    expect(await redis.client().xlen('sb:{default}:log')).toBe(0);
    await world.emit(['a.b', { n: 101 }]);
    expect(await first()).toBe(102);
  });

  test('by bytes, within a second and over seconds', async () => {
    const text = 'x'.repeat(1000);
    for (let i = 0; i < 3; i++) {
      await Promise.all(upTo(300).map((n) => world.emit(['a.b', { n, text }])));
      await age(2000);
    }
    const entry = (await meta('bytes')) / 900;
    for (const bytesMax of [700_000, 400_000, 100_000]) {
      await trimLog.runOnce(world.namespace, { ...wide, bytesMax });
      const kept = ((await meta('offset')) - (await meta('tail'))) * entry;
      expect(kept).toBeLessThanOrEqual(bytesMax + 2 * entry);
      expect(kept).toBeGreaterThan(bytesMax - 20 * entry);
    }
    expect(await redis.client().zcard('sb:{default}:logIndex')).toBeLessThanOrEqual(2);
  });

  test('a large log is trimmed in steps', async () => {
    const rows = upTo(1000).map((n): [string, unknown] => ['a.b', { n }]);
    for (let i = 0; i < 45; i++) await world.emit(...rows);
    await age(10_000);
    expect(await trimLog.runOnce(world.namespace, { ...wide, ageMaxMs: 5000 })).toBe(45_001);
  });

  test('epochs stay while positions in them may be asked for, and at most 64 for ever', async () => {
    for (let i = 0; i < 80; i++) {
      await redis.client().hset('sb:{default}:meta', 'replid', `r${i}`);
      await world.emit(['a.b', { n: i }]);
    }
    await age(10_000);
    await trimLog.runOnce(world.namespace, { ...wide, ageMaxMs: 5000 });
    expect(await redis.client().zcard('sb:{default}:epochs')).toBe(64);
    const epochs = await redis.client().zrange('sb:{default}:epochs', '-1', '-1');
    expect(await redis.client().hget('sb:{default}:meta', 'epoch')).toBe(epochs[0]);
  });

  test('F1 and F5: a quiet tail resumes after ten times the retention, a forgotten position is refused', async () => {
    await world.stop();
    world = await World.start(redis, { settings: { log: { eventsMax: 100 }, gateway: { positionEvery: 256 } } });
    const sink = new FakeSink();
    const tail = world.router.open(sink);
    const { from } = await call(world, tail, subscribe, { types: ['quiet.>'] });
    let n = 0;
    await until(async () => {
      await world.emitMany(20, 'busy.x', ++n);
      await trimLog.runOnce(world.namespace, wide);
      return (await meta('offset')) > 1000 && sink.ops('position').length > 0;
    });
    // The last ones were written after the position that the client has by now: the next one comes within a second.
    const told = (): number => Number(sink.ops('position').at(-1)!.position!.split(':')[1]);
    await until(() => tail.position!.offset - told() < 25, 5000);
    const position = sink.ops('position').at(-1)!.position!;
    tail.dispose();
    const again = new FakeSink();
    const reply = await call(world, world.router.open(again), subscribe, { types: ['quiet.>'], from: position });
    expect(reply.from).toBe(position);
    await world.emit(['quiet.a', { n: 1 }]);
    await until(() => again.numbers.length === 1);
    expect(again.ops('gap')).toEqual([]);
    const gone = (await meta('tail')) - Number(from.split(':')[1]);
    const lost = call(world, world.router.open(new FakeSink()), subscribe, { types: ['quiet.>'], from });
    await expect(lost).rejects.toMatchObject({ code: 'POSITION_LOST', details: { reason: 'trimmed', lost: gone } });
  });

  test('after a trim the readable log is exactly what lies behind the tail', async () => {
    for (let n = 1; n <= 40; n++) await world.emit(['a.b', { n }], ['a.b', { n }], ['a.b', { n }]);
    await redis.client().hset('sb:{default}:meta', 'tail', 50);
    const { events } = await call(world, undefined, read, { from: 'all', limit: 1000 });
    expect(events[0]?.offset).toBe(51);
    expect(events.length).toBe(121 - 50);
  });
});

describe('forget-published', () => {
  const say = (ids: number[]) =>
    call(world, undefined, publish, { events: ids.map((n) => ({ type: 'a', id: `i${n}`, source: 's' })) });
  const remembered = async (): Promise<[number, number]> => [
    await redis.client().hlen('sb:{default}:published'),
    await redis.client().zcard('sb:{default}:publishedAt'),
  ];

  test('forgets what is older than the window, all of it, and nothing else', async () => {
    for (let i = 0; i < 3; i++) await say(upTo(1000).map((n) => i * 1000 + n));
    await redis
      .client()
      .eval(
        `for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, 2499)) do redis.call('ZADD', KEYS[1], 1000, member) end`,
        1,
        'sb:{default}:publishedAt',
      );
    expect(await forgetPublished.runOnce(world.namespace, { publishWindowMs: 60_000 })).toBe(2500);
    expect(await remembered()).toEqual([500, 500]);
    expect(await forgetPublished.runOnce(world.namespace, { publishWindowMs: 60_000 })).toBe(0);
  });

  test('the memory is bounded by the script itself: the oldest go first', async () => {
    const client = redis.client();
    await client.eval(
      `for i = 0, 99999 do
         redis.call('ZADD', KEYS[1], i + 1, '1:sx' .. i)
         redis.call('HSET', KEYS[2], '1:sx' .. i, 'e:1')
       end`,
      2,
      'sb:{default}:publishedAt',
      'sb:{default}:published',
    );
    await say(upTo(300));
    expect(await remembered()).toEqual([100_000, 100_000]);
    expect(await client.hexists('sb:{default}:published', '1:sx299')).toBe(0);
    expect(await client.hexists('sb:{default}:published', '1:sx300')).toBe(1);
  });
});
