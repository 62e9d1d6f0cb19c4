import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { EventLog } from '../../src/redis/event-log.js';
import type { LogBatch, LogEvent, LogItem } from '../../src/redis/log-entry.js';
import { World } from '../feed/world.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';

/** All that a log handed out, and what its events are. */
function record(log: EventLog): {
  items: LogItem[];
  events: () => LogEvent[];
  numbers: () => number[];
  kinds: () => string[];
} {
  const items: LogItem[] = [];
  const error = (fault: unknown): never => {
    throw fault;
  };
  log.batch$.subscribe({ next: (batch: LogBatch) => items.push(...batch), error });
  const events = (): LogEvent[] => items.flatMap((item) => (item.kind === 'entry' ? item.events : []));
  return {
    items,
    events,
    numbers: () =>
      events()
        .filter(({ type }) => type === 'a.b')
        .map(({ data }) => (data as { n: number }).n),
    kinds: () => items.map(({ kind }) => kind),
  };
}

describe('the reader of a log', () => {
  let redis: TestRedis;
  let world: World;
  beforeAll(async () => {
    redis = await startRedis({ args: ['--appendonly', 'yes'] });
  });
  afterAll(() => redis.stop());
  beforeEach(async () => {
    world = await World.start(redis);
  });
  afterEach(async () => {
    await world.stop();
    await redis.client().flushall();
  });

  test('hands out every event in order, and the ring holds the newest', async () => {
    const seen = record(world.log);
    await world.emitMany(500);
    await until(() => seen.numbers().length === 500);
    expect(seen.numbers()).toEqual(Array.from({ length: 500 }, (_, i) => i + 1));
    expect(world.log.position.offset).toBe(seen.events().at(-1)!.offset);
    const { ring } = world.log;
    expect(ring.at(ring.indexBehind(ring.head.offset - 10))?.first).toBe(ring.head.offset - 9);
  });

  test('an entry of many events is one item, split only when asked', async () => {
    const seen = record(world.log);
    await world.emit(['a.b', { n: 1 }], ['a.c', {}, 'other'], ['a.b', { n: 2 }]);
    await until(() => seen.items.length > 0);
    const [entry] = seen.items;
    expect(entry).toMatchObject({ kind: 'entry', count: 3, by: 'd1' });
    expect(seen.events().map(({ type, subject, own }) => [type, subject, own])).toEqual([
      ['a.b', 'thing', true],
      ['a.c', 'other', true],
      ['a.b', 'thing', true],
    ]);
    expect(JSON.parse(seen.events()[1]!.line)).toEqual({
      op: 'event',
      offset: seen.events()[1]!.offset,
      event: {
        id: `${world.log.position.epoch}:${seen.events()[1]!.offset}`,
        source: '/signalbox/default',
        type: 'a.c',
        subject: 'other',
        time: new Date((entry as { at: number }).at).toISOString(),
        data: {},
      },
    });
  });

  test('F11: its connection is killed 50 times while idle, and every event still arrives in time', async () => {
    const seen = record(world.log);
    const admin = redis.client();
    for (let i = 1; i <= 50; i++) {
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await until(
        () =>
          world.emit(['a.b', { n: i }]).then(
            () => true,
            () => false,
          ),
        2000,
      );
      await until(() => seen.numbers().at(-1) === i, 200 + 2000);
    }
    expect(new Set(seen.numbers()).size).toBe(50);
    expect(seen.kinds().every((kind) => kind === 'entry')).toBe(true);
  });

  test('F12: Redis is away for three block times, then it reads again without a restart of its own', async () => {
    const seen = record(world.log);
    await world.emitMany(5);
    await until(() => seen.numbers().length === 5);
    await redis.client().save();
    await redis.kill();
    const died = performance.now();
    await until(() => performance.now() - died > 600);
    await redis.restart();
    await until(() =>
      world.emit(['a.b', { n: 6 }]).then(
        () => true,
        () => false,
      ),
    );
    await until(() => seen.numbers().at(-1) === 6, 7000);
    const marks = seen.items.filter(({ kind }) => kind !== 'entry');
    expect(marks.length).toBe(1);
  });

  test('a clean restart is an epoch mark in place, without loss', async () => {
    const seen = record(world.log);
    await world.emitMany(3);
    await until(() => seen.numbers().length === 3);
    const before = world.log.position;
    await redis.restart();
    await until(() =>
      world.emit(['a.b', { n: 4 }]).then(
        () => true,
        () => false,
      ),
    );
    await until(() => seen.numbers().length === 4);
    const at = seen.kinds().indexOf('epoch');
    const { epoch } = world.log.position;
    expect(epoch).not.toBe(before.epoch);
    expect(seen.items[at]).toEqual({ kind: 'epoch', position: { epoch, offset: before.offset } });
    expect(seen.items[at + 1]).toMatchObject({ kind: 'entry', first: before.offset + 1, epoch });
  });

  test('FLUSHALL while it waits: a reset in place within the block time, though nobody writes', async () => {
    const seen = record(world.log);
    await world.emitMany(20);
    await until(() => seen.numbers().length === 20);
    const from = world.log.position;
    await redis.client().flushall();
    await until(() => seen.kinds().includes('gap'), 200 + 2000);
    const gap = seen.items.find(({ kind }) => kind === 'gap');
    expect(gap).toEqual({ kind: 'gap', reason: 'reset', from, to: { epoch: world.log.position.epoch, offset: 0 } });
    await world.emit(['a.b', { n: 21 }]);
    await until(() => seen.numbers().at(-1) === 21);
  });

  test('F8(a): FLUSHALL and at once more events than before: nothing of the new log is taken for the old one', async () => {
    const seen = record(world.log);
    await world.emitMany(50);
    await until(() => seen.numbers().length === 50);
    const from = world.log.position;
    await redis.client().flushall();
    await world.emitMany(200, 'a.b', 51);
    await until(() => seen.numbers().length === 250);
    expect(seen.numbers()).toEqual(Array.from({ length: 250 }, (_, i) => i + 1));
    const gaps = seen.items.filter(({ kind }) => kind === 'gap');
    expect(gaps).toEqual([{ kind: 'gap', reason: 'reset', from, to: { epoch: world.log.position.epoch, offset: 0 } }]);
  });

  test('a rewound log is a fork with the number of events that are gone', async () => {
    const seen = record(world.log);
    const admin = redis.client();
    await world.emitMany(5);
    const saved = await admin.hgetall('sb:{default}:meta');
    await world.emitMany(3, 'a.b', 6);
    await until(() => seen.numbers().length === 8);
    const from = world.log.position;
    const ids = (await admin.xrevrange('sb:{default}:log', '+', '-', 'COUNT', 3)) as [string, unknown][];
    await admin.xdel('sb:{default}:log', ...ids.map(([id]) => id));
    await admin.xsetid('sb:{default}:log', `${saved.offset}-0`);
    await admin.hset('sb:{default}:meta', { ...saved, replid: 'another' });
    await until(() => seen.kinds().includes('gap'), 2200);
    const to = { epoch: world.log.position.epoch, offset: Number(saved.offset) };
    expect(seen.items.find(({ kind }) => kind === 'gap')).toEqual({ kind: 'gap', reason: 'fork', from, to, lost: 3 });
  });

  test('trimmed beyond its cursor: the gap says how many', async () => {
    const seen = record(world.log);
    const admin = redis.client();
    await world.emitMany(3);
    await until(() => seen.numbers().length === 3);
    const from = world.log.position;
    // Held still from outside, since the reader is faster than any trimming: write and trim in one step.
    await admin.eval(
      `local head = redis.call('HGET', KEYS[1], 'offset') + 0
       local epoch = redis.call('HGET', KEYS[1], 'epoch')
       for i = 1, 10 do redis.call('XADD', KEYS[2], (head + i) .. '-0', 'by', 'd', 'epoch', epoch, 'at', '1', 'n', 1, 'types', 'a.b', 'events', 'a.b\\t"x"\\t{"n":' .. i + 3 .. '}') end
       redis.call('HSET', KEYS[1], 'offset', head + 10, 'tail', head + 7)
       redis.call('XTRIM', KEYS[2], 'MINID', head + 8)`,
      2,
      'sb:{default}:meta',
      'sb:{default}:log',
    );
    await until(() => seen.numbers().at(-1) === 13);
    const to = { epoch: from.epoch, offset: from.offset + 7 };
    expect(seen.items.find(({ kind }) => kind === 'gap')).toEqual({
      kind: 'gap',
      reason: 'trimmed',
      from,
      to,
      lost: 7,
    });
    expect(seen.numbers()).toEqual([1, 2, 3, 11, 12, 13]);
  });

  test('a Redis that is frozen makes it deaf for as long, and says so; then it goes on without a hole', async () => {
    const seen = record(world.log);
    await world.emit(['a.a']);
    await until(() => seen.items.length === 1);
    process.kill(redis.pid, 'SIGSTOP');
    try {
      await until(() => world.log.readerAgeMs > 2500);
      await until(() => world.log.faults > 0);
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await until(() =>
      world.emit(['a.b', { n: 1 }]).then(
        () => true,
        () => false,
      ),
    );
    await until(() => seen.numbers().includes(1));
    await until(() => world.log.readerAgeMs < 500);
    expect(seen.kinds().every((kind) => kind === 'entry')).toBe(true);
  });

  test('CLIENT PAUSE: nothing is lost and nothing twice', async () => {
    const seen = record(world.log);
    await redis.client().client('PAUSE', 1200, 'ALL');
    await world.emitMany(50).catch(() => undefined);
    await until(() => seen.numbers().length >= 50);
    expect(seen.numbers()).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
  });

  test('stop is quick, also while Redis is silent, and lets go of its connection', async () => {
    const seen = record(world.log);
    await world.emit(['a.a']);
    await until(() => seen.items.length === 1);
    process.kill(redis.pid, 'SIGSTOP');
    const begun = performance.now();
    try {
      await world.log.stop();
      expect(performance.now() - begun).toBeLessThan(1000);
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await until(() => world.opened.every(({ status }) => status === 'end'));
  });

  test('the ring is bounded by bytes', async () => {
    await world.stop();
    world = await World.start(redis, { ringBytes: 20_000 });
    const seen = record(world.log);
    await world.emitMany(300);
    await until(() => seen.numbers().length === 300);
    const { ring } = world.log;
    expect(ring.bytes).toBeLessThanOrEqual(20_000);
    expect(ring.length).toBeLessThan(60);
    expect(ring.at(0)?.first).toBe(ring.base + 1);
  });
});
