import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Client, openRedis, ScriptRunner } from '../../src/redis/connection.js';
import { LogEntry } from '../../src/redis/log-entry.js';
import { Namespace } from '../../src/redis/namespace.js';
import { lua } from '../../src/redis/script.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';

const script = lua(import.meta.url, './turn.lua', ['mode', 'count']);
type Reply = [epoch: string, lease: string, now: string, skew: string, fences: string[]];

describe('the frame of every script', () => {
  let redis: TestRedis;
  let client: Client;
  let namespace: Namespace;
  const meta = (field: string): Promise<string | null> => client.hget('sb:{t}:meta', field);

  const daemon = (name = 'd1', eventsMax = 1_000_000): Namespace =>
    new Namespace('t', new ScriptRunner(client, []), { daemon: name, eventsMax });
  const run = (mode = 'emit', count = 0, on = namespace): Promise<Reply> => on.call<Reply>(script, [mode, count]);
  const entries = async (): Promise<LogEntry[]> => {
    const rows = (await client.xrange('sb:{t}:log', '-', '+')) as [string, string[]][];
    return rows.map(([id, fields]) => new LogEntry(id, fields, '"/signalbox/t"'));
  };
  const epochs = async (): Promise<string[]> => {
    const flat = await client.call('ZRANGE', 'sb:{t}:epochs', '0', '-1', 'WITHSCORES');
    return (flat as string[][]).flat();
  };
  const began = async (): Promise<unknown[]> =>
    (await entries()).flatMap(({ events }) =>
      events.filter(({ type }) => type === 'epoch.began').map(({ data }) => data),
    );

  beforeAll(async () => {
    redis = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
  });
  afterAll(() => redis.stop());
  beforeEach(async () => {
    client = openRedis({ kind: 'socket', path: redis.path }, 'commands', 2000);
    client.on('error', () => {});
    await client.connect();
    await client.flushall();
    namespace = daemon();
  });
  afterEach(() => client.disconnect());

  test('offsets are dense over many scripts of many daemons, and the head is the last of them', async () => {
    const others = [daemon('d1'), daemon('d2'), daemon('d3')];
    await Promise.all(Array.from({ length: 600 }, (_, i) => run('emit', 0, others[i % 3])));
    const offsets = (await entries()).flatMap(({ events }) => events.map(({ offset }) => offset));
    expect(offsets).toEqual(Array.from({ length: 601 }, (_, i) => i + 1));
    expect(await meta('offset')).toBe('601');
    expect(new Set((await entries()).map(({ by }) => by))).toEqual(new Set(['d1', 'd2', 'd3']));
  });

  test('an empty store begins its epoch at 1, once', async () => {
    const [epoch] = await run();
    await run();
    expect(await began()).toEqual([{ epoch, reason: 'new' }]);
    expect(await epochs()).toEqual([epoch, '1']);
  });

  test('a script that refuses leaves nothing, not even the epoch it would have begun', async () => {
    await expect(run('refuse')).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await client.keys('*')).toEqual([]);
  });

  test('a restart with its data begins a new epoch behind the head, whichever daemon writes first', async () => {
    const [before] = await run();
    await redis.restart();
    await until(async () => (await client.ping().catch(() => '')) === 'PONG');
    const [after] = await run('emit', 0, daemon('d2'));
    expect(after).not.toBe(before);
    expect(await began()).toEqual([
      { epoch: before, reason: 'new' },
      { epoch: after, reason: 'restarted', previous: before },
    ]);
    expect(await epochs()).toEqual([before, '1', after, '3']);
    expect((await entries()).at(-1)).toMatchObject({ epoch: after, offset: 4 });
  });

  test('FLUSHALL: the offsets start at 1 in a new epoch, and the fences go on rising', async () => {
    const first = await run('emit', 3);
    await client.flushall();
    const second = await run('emit', 3);
    expect(second[0]).not.toBe(first[0]);
    expect(await began()).toEqual([{ epoch: second[0], reason: 'reset' }]);
    expect((await entries())[0]).toMatchObject({ first: 1, epoch: second[0] });
    expect(Math.min(...second[4].map(Number))).toBeGreaterThan(Math.max(...first[4].map(Number)));
  });

  test('fences rise even if both the store is lost and the clock is behind', async () => {
    await run('emit', 1);
    await client.hset('sb:{t}:meta', 'fence', '9000000000000000');
    const high = Number((await run('emit', 1))[4][0]);
    expect(high).toBe(9_000_000_000_000_001);
    await client.flushall();
    expect(Number((await run('emit', 1))[4][0])).toBeGreaterThan(high);
  });

  test('a log that was rewound behind what this daemon has seen begins a new epoch at the rewound head', async () => {
    for (let i = 0; i < 5; i++) await run();
    const saved = await client.hgetall('sb:{t}:meta');
    const [before] = await run();
    await run();
    await client.hset('sb:{t}:meta', saved);
    await client.xtrim('sb:{t}:log', 'MAXLEN', 5);
    await client.del('sb:{t}:log');
    const [after] = await run();
    expect(after).not.toBe(before);
    expect((await entries())[0]).toMatchObject({ first: Number(saved.offset) + 1, epoch: after });
    expect(await began()).toEqual([{ epoch: after, reason: 'rewound', previous: before }]);
  });

  test('a jump of the clock goes into skew and is told; leases stand still', async () => {
    const [, lease] = await run();
    await client.hincrby('sb:{t}:meta', 'seen', -60_000);
    const [, later, now, skew] = await run();
    expect(Number(skew)).toBeGreaterThanOrEqual(60_000);
    expect(Number(later) - Number(lease)).toBeLessThan(5_000);
    expect(Number(now) - Number(later)).toBe(Number(skew));
    const jumps = (await entries()).flatMap(({ events }) => events.filter(({ type }) => type === 'clock.jumped'));
    expect(jumps.map(({ data }) => data)).toEqual([{ byMs: Number(skew) }]);
  });

  test('a clock that goes back does not lengthen leases either', async () => {
    const [, lease] = await run();
    await client.hincrby('sb:{t}:meta', 'seen', 30_000);
    const [, later, , skew] = await run();
    expect(Number(skew)).toBeLessThanOrEqual(-29_000);
    expect(Number(later)).toBeGreaterThanOrEqual(Number(lease));
  });

  test('silent turns write at most every 250 ms', async () => {
    await run('silent');
    const seen = await meta('seen');
    await run('silent');
    expect(await meta('seen')).toBe(seen);
    expect(await client.xlen('sb:{t}:log')).toBe(1);
  });

  test('a burst between two sweeps trims itself, and the side index has one row a second', async () => {
    const small = daemon('d1', 100);
    const begun = performance.now();
    for (let i = 0; i < 300; i++) await run('emit', 0, small);
    const tail = Number(await meta('tail'));
    expect(301 - tail).toBeLessThanOrEqual(107);
    expect((await entries())[0]?.first).toBe(tail + 1);
    const seconds = (performance.now() - begun) / 1000;
    expect(await client.zcard('sb:{t}:logIndex')).toBeLessThanOrEqual(2 + seconds);
  });
});
