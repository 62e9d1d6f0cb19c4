import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Attribute } from '../../src/protocol/filter.js';
import { formatPosition, type Position } from '../../src/protocol/position.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { FakeSink, upTo, type Watcher, World } from './world.js';

let redis: TestRedis;
let world: World;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  world = await World.start(redis, { ringBytes: 60_000 });
});
afterEach(async () => {
  await world.stop();
  await redis.client().flushall();
});

function watch(
  types: string[] = ['>'],
  at: Position = world.log.position,
  where: Partial<Record<Attribute, string>> = {},
  sink = new FakeSink(),
): Watcher {
  const tail = world.router.open(sink);
  tail.subscribe({ namespace: 'default', filter: { types, where }, at });
  return { sink, tail };
}

/** All of them have handled what was written before the call. */
async function caughtUp(...watchers: Watcher[]): Promise<void> {
  const head = world.namespace.seenPosition;
  await until(() => watchers.every(({ tail }) => tail.position && formatPosition(tail.position) === head));
}

describe('a tail at the head', () => {
  test('gets every event once and in order, however many of its subscriptions match', async () => {
    const { sink, tail } = watch(['a.*']);
    tail.subscribe({ namespace: 'default', filter: { types: ['>'], where: {} }, at: world.log.position });
    tail.subscribe({ namespace: 'default', filter: { types: ['a.b'], where: {} }, at: world.log.position });
    await world.emitMany(300);
    await until(() => sink.numbers.length === 300);
    expect(sink.numbers).toEqual(upTo(300));
    expect(new Set(sink.offsets).size).toBe(300);
  });

  test('patterns and where decide what comes', async () => {
    const exact = watch(['lock.granted']);
    const one = watch(['lock.*'], undefined, { agent: 'x' });
    const deep = watch(['a.>'], undefined, { agent: 'x', queue: 'q' });
    await world.emit(
      ['lock.granted', { n: 1, agent: 'x' }],
      ['lock.released', { n: 2, agent: 'y' }],
      ['lock.a.b', { n: 3, agent: 'x' }],
      ['a.b.c', { n: 4, agent: 'x', queue: 'q' }],
      ['a.b', { n: 5, agent: 'x', queue: 'r' }],
      ['a', { n: 6, agent: 'x', queue: 'q' }],
      ['lock.lost', { n: 7, deep: { agent: 'x' } }],
    );
    await caughtUp(exact, one, deep);
    expect([exact.sink.numbers, one.sink.numbers, deep.sink.numbers]).toEqual([[1], [1], [4]]);
  });

  test('members of a group share the very same bytes', async () => {
    const watchers = Array.from({ length: 20 }, () => watch());
    await caughtUp(...watchers);
    await world.emit(...upTo(50).map((n): [string, unknown] => ['a.b', { n }]));
    await until(() => watchers.every(({ sink }) => sink.numbers.length === 50));
    const first = watchers[0]!.sink.chunks.at(-1)!;
    expect(first.toString().split('\n').length).toBe(50);
    expect(watchers.every(({ sink }) => sink.chunks.at(-1) === first)).toBe(true);
  });

  test('a thousand tails that each watch one agent cost one look-up an event', async () => {
    const watchers = Array.from({ length: 1000 }, (_, i) => watch(['task.*'], undefined, { agent: `a${i}` }));
    await caughtUp(...watchers);
    await world.emit(...upTo(200).map((n): [string, unknown] => ['task.done', { n, agent: `a${n}` }]));
    await until(() => watchers[200]!.sink.numbers.length === 1);
    expect(watchers.map(({ sink }) => sink.numbers.length).reduce((a, b) => a + b)).toBe(200);
    expect(watchers[7]!.sink.numbers).toEqual([7]);
  });

  test('Q30(a): what is emitted right after the subscription arrives, 300 rounds', async () => {
    for (let n = 1; n <= 300; n++) {
      const { sink, tail } = watch(['a.b'], world.log.position);
      await world.emit(['a.b', { n }]);
      await until(() => sink.numbers.includes(n));
      tail.dispose();
    }
  });
});

describe('a tail that begins in the past', () => {
  test('Q30(c): resumes at 100 random places, inside entries too, without loss and without a repeat', async () => {
    const seed = Date.now() % 1_000_000;
    console.log(`seed ${seed}`);
    let state = seed;
    const random = (below: number): number => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return state % below;
    };
    const first = world.log.position.offset;
    for (let n = 1; n <= 1000; ) {
      const size = Math.min(1 + random(5), 1001 - n);
      await world.emit(...Array.from({ length: size }, (_, i): [string, unknown] => ['a.b', { n: n + i }]));
      n += size;
    }
    const { epoch } = world.log.position;
    const cuts = Array.from({ length: 100 }, () => random(1000));
    const resumed = cuts.map((cut) => watch(['>'], { epoch, offset: first + cut }));
    const more = world.emitMany(200, 'a.b', 1001);
    await more;
    await until(() => resumed.every(({ sink }) => sink.numbers.at(-1) === 1200));
    for (const [i, { sink }] of resumed.entries()) expect(sink.numbers).toEqual(upTo(1200).slice(cuts[i]));
    expect(world.router.stats().behind).toBe(0);
  });

  test('many at one place share their reads of Redis', async () => {
    const at = world.log.position;
    await world.emitMany(1000);
    await until(() => world.log.position.offset === at.offset + 1000);
    let pages = 0;
    const { page } = world.log;
    world.log.page = (...args) => {
      pages++;
      return page.apply(world.log, args);
    };
    const herd = Array.from({ length: 200 }, () => watch(['>'], at));
    await until(() => herd.every(({ sink }) => sink.numbers.length === 1000));
    expect(pages).toBeLessThan(12);
  });

  test('never more than eight reads are on their way', async () => {
    const at = world.log.position;
    await world.emitMany(700);
    await until(() => world.log.position.offset === at.offset + 700);
    let most = 0;
    const herd = upTo(40).map((n) => watch(['>'], { epoch: at.epoch, offset: at.offset + n }));
    await until(() => {
      most = Math.max(most, world.router.stats().reading);
      return herd.every(({ sink }) => sink.numbers.at(-1) === 700);
    });
    expect(most).toBeLessThanOrEqual(8);
    for (const [i, { sink }] of herd.entries()) expect(sink.numbers.length).toBe(700 - i - 1);
  });
});

describe('a tail whose socket is slow', () => {
  test('F26: gets everything in the end, nobody else waits for it, and nothing is kept for it', async () => {
    const slow = watch();
    const fast = watch();
    await caughtUp(slow, fast);
    slow.sink.space = 0;
    await world.emitMany(1000);
    await until(() => fast.sink.numbers.length === 1000);
    expect(slow.sink.numbers.length).toBeLessThan(1000);
    const held = slow.sink.chunks.length;
    await world.emitMany(500, 'a.b', 1001);
    await until(() => fast.sink.numbers.length === 1500);
    expect(slow.sink.chunks.length).toBe(held);
    while (slow.sink.numbers.length < 1500) {
      await until(() => slow.sink.waits || slow.sink.numbers.length === 1500);
      slow.sink.drain(5000);
    }
    expect(slow.sink.numbers).toEqual(upTo(1500));
    slow.sink.drain();
    await caughtUp(slow);
    await world.emitMany(5, 'a.b', 1501);
    await until(() => slow.sink.numbers.length === 1505);
    expect(slow.sink.numbers).toEqual(upTo(1505));
  });

  test('chunks keep to 64 lines and to lineBytes', async () => {
    await world.stop();
    world = await World.start(redis, { settings: { gateway: { lineBytes: 4096 } } });
    const { sink } = watch();
    const text = 'é'.repeat(700);
    await world.emit(...upTo(130).map((n): [string, unknown] => ['a.b', { n }]));
    await world.emit(...upTo(20).map((n): [string, unknown] => ['a.b', { n: 130 + n, text }]));
    await until(() => sink.numbers.length === 150);
    expect(sink.numbers).toEqual(upTo(150));
    expect(Math.max(...sink.chunks.map(({ length }) => length))).toBeLessThanOrEqual(4096);
  });

  test('Q30(d): one that lags behind the retention is told once how many it lost, and goes on', async () => {
    const slow = watch();
    await caughtUp(slow);
    slow.sink.space = 0;
    await world.emit(['a.b', { n: 1 }]);
    await until(() => slow.sink.waits);
    const from = slow.tail.position!;
    await world.emitMany(400, 'a.b', 2);
    const head = world.namespace.seenPosition;
    await redis.client().xtrim('sb:{default}:log', 'MINID', `${from.offset + 301}-0`);
    await redis.client().hset('sb:{default}:meta', 'tail', from.offset + 300);
    await until(() => formatPosition(world.log.position) === head);
    slow.sink.drain();
    await until(() => slow.sink.numbers.at(-1) === 401);
    const to = `${from.epoch}:${from.offset + 300}`;
    expect(slow.sink.ops('gap')).toEqual([{ op: 'gap', from: formatPosition(from), to, lost: 300, reason: 'trimmed' }]);
    expect(slow.sink.lines[slow.sink.lines.findIndex(({ op }) => op === 'gap') + 1]).toMatchObject({
      op: 'event',
      offset: from.offset + 301,
    });
    expect(slow.sink.numbers).toEqual(upTo(401).slice(300));
  });
});

describe('positions and gaps', () => {
  test('F1: a quiet tail hears of its position after positionEvery unmatched events, at most once a second', async () => {
    await world.stop();
    world = await World.start(redis, { settings: { gateway: { positionEvery: 100 } } });
    const quiet = watch(['quiet.>']);
    await world.emitMany(350);
    await until(() => quiet.sink.ops('position').length === 1, 2500);
    expect(quiet.sink.lines).toEqual([{ op: 'position', position: formatPosition(world.log.position) }]);
    expect(quiet.tail.position).toEqual(world.log.position);
    await world.emitMany(50);
    await world.emit(['quiet.a', { n: 1 }]);
    await until(() => quiet.sink.numbers.length === 1);
    expect(quiet.sink.ops('position').length).toBe(1);
  });

  test('with a short log the position comes at a quarter of it', async () => {
    await world.stop();
    world = await World.start(redis, { settings: { log: { eventsMax: 40 } } });
    const quiet = watch(['quiet.>']);
    await world.emitMany(12);
    await until(() => quiet.sink.ops('position').length === 1, 2500);
  });

  test('a new epoch is told to everybody in place, whatever the patterns, at the head and behind', async () => {
    const at = world.log.position;
    const live = watch(['quiet.>']);
    await world.emitMany(3);
    await caughtUp(live);
    const last = world.log.position;
    await redis.client().hset('sb:{default}:meta', 'replid', 'other');
    await world.emitMany(2, 'a.b', 4);
    await until(() => world.log.position.offset === last.offset + 3);
    const { epoch } = world.log.position;
    const line = { op: 'position', position: `${epoch}:${last.offset}` };
    await until(() => live.sink.lines.length === 1);
    expect(live.sink.lines).toEqual([line]);

    const behind = watch(['a.b', 'epoch.*'], at);
    await until(() => behind.sink.numbers.length === 5);
    expect(behind.sink.lines.map(({ op, offset }) => (op === 'event' ? offset! - last.offset : op))).toEqual([
      -2,
      -1,
      0,
      'position',
      1,
      2,
      3,
    ]);
    expect(behind.sink.ops('position')).toEqual([line]);
    expect(behind.sink.ops('event').at(-1)?.event?.id).toBe(`${epoch}:${last.offset + 3}`);
  });

  test('FLUSHALL resets a tail at the head and one that lags, each in place', async () => {
    const live = watch(['a.b']);
    const slow = watch(['a.b']);
    await world.emitMany(10);
    await caughtUp(live, slow);
    const from = world.log.position;
    slow.sink.space = 0;
    await world.emit(['a.b', { n: 11 }]);
    await until(() => slow.sink.waits && live.sink.numbers.length === 11);
    await redis.client().flushall();
    await world.emitMany(200, 'a.b', 12);
    await until(() => live.sink.numbers.at(-1) === 211);
    slow.sink.drain();
    await until(() => live.sink.numbers.at(-1) === 211 && slow.sink.numbers.at(-1) === 211);
    const to = `${world.log.position.epoch}:0`;
    expect(live.sink.ops('gap')).toEqual([
      { op: 'gap', from: `${from.epoch}:${from.offset + 1}`, to, reason: 'reset' },
    ]);
    expect(slow.sink.ops('gap')).toEqual([{ op: 'gap', from: formatPosition(from), to, reason: 'reset' }]);
    expect(live.sink.numbers).toEqual(upTo(211));
    expect(slow.sink.numbers).toEqual(upTo(211).filter((n) => n !== 11));
  });

  test('a tail that was given a place ahead of the ring waits for the ring and loses nothing', async () => {
    await world.emitMany(3);
    process.kill(redis.pid, 'SIGSTOP');
    process.kill(redis.pid, 'SIGCONT');
    const ahead = parseHead();
    const { sink } = watch(['>'], ahead);
    await world.emitMany(100, 'a.b', 4);
    await until(() => sink.numbers.at(-1) === 103);
    expect(sink.numbers).toEqual(upTo(103).slice(3));
  });
});

const parseHead = (): Position => {
  const [epoch, offset] = world.namespace.seenPosition.split(':') as [string, string];
  return { epoch, offset: Number(offset) };
};

describe('subscriptions', () => {
  test('after unsubscribe nothing comes for it, what was written is sealed, and the last one ends the cursor', async () => {
    const { sink, tail } = watch(['a.b']);
    const second = tail.subscribe({
      namespace: 'default',
      filter: { types: ['c.d'], where: {} },
      at: world.log.position,
    });
    await world.emit(['a.b', { n: 1 }], ['c.d', { n: 2 }]);
    await until(() => sink.numbers.length === 2);
    expect(tail.unsubscribe(second)).toBe(true);
    expect(sink.seals).toBe(1);
    expect(tail.unsubscribe(second)).toBe(false);
    await world.emit(['a.b', { n: 3 }], ['c.d', { n: 4 }]);
    await until(() => sink.numbers.length === 3);
    expect(sink.numbers).toEqual([1, 2, 3]);
    expect(tail.unsubscribe('s1')).toBe(true);
    expect(tail.position).toBeUndefined();
    expect(world.router.stats()).toMatchObject({ tails: 0, groups: 0 });
    await world.emit(['a.b', { n: 5 }]);
    const at = world.log.position;
    tail.subscribe({ namespace: 'default', filter: { types: ['a.b'], where: {} }, at: parseHead() });
    await world.emit(['a.b', { n: 6 }]);
    await until(() => sink.numbers.includes(6));
    expect(sink.numbers).toEqual([1, 2, 3, 6]);
    expect(at.offset).toBeLessThan(world.log.position.offset);
  });

  test('a subscription widens the cursor from its present place', async () => {
    const { sink, tail } = watch(['a.b']);
    await world.emit(['c.d', { n: 1 }]);
    await caughtUp({ sink, tail });
    tail.subscribe({ namespace: 'default', filter: { types: ['c.d'], where: {} }, at: { epoch: 'x', offset: 0 } });
    await world.emit(['c.d', { n: 2 }], ['a.b', { n: 3 }]);
    await until(() => sink.numbers.length === 2);
    expect(sink.numbers).toEqual([2, 3]);
  });

  test('the 65th is refused', () => {
    const { tail } = watch();
    const add = (): string =>
      tail.subscribe({ namespace: 'default', filter: { types: ['x'], where: {} }, at: world.log.position });
    for (let i = 1; i < 64; i++) add();
    expect(add).toThrow(expect.objectContaining({ code: 'LIMIT' }));
  });

  test('20,000 tails that come and go leave nothing behind', async () => {
    for (let i = 0; i < 20_000; i++) {
      const { tail } = watch([`a.${i % 7}`], world.log.position, i % 3 ? { agent: `${i}` } : {});
      if (i % 2) await Promise.resolve();
      tail.dispose();
    }
    expect(world.router.stats()).toEqual({ tails: 0, groups: 0, behind: 0, reading: 0 });
  });
});
