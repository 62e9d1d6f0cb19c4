import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { publish, read } from '../../src/feed/index.js';
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

const say = (events: object[]) => call(world, undefined, publish, { events });
const look = (params: object) => call(world, undefined, read, params);
const epoch = (): string => world.namespace.seenPosition.split(':')[0]!;

describe('feed.publish', () => {
  test('an event is in the log as it was said, and its position is where it stands', async () => {
    const params =
      '{"events":[{"type":"deploy.done","subject":"s\\"1","data":{"n":9007199254740993,\t"x":1.0,\n"x":"\\ud800"},"id":"i1","source":"ci"},{"type":"a"}]}';
    const { events } = await call(world, undefined, publish, params);
    expect(events).toEqual([{ position: `${epoch()}:2` }, { position: `${epoch()}:3` }]);
    const sink = new FakeSink();
    world.router
      .open(sink)
      .subscribe({ namespace: 'default', filter: { types: ['>'], where: {} }, at: { epoch: epoch(), offset: 1 } });
    await until(() => sink.texts.length === 2);
    expect(sink.texts[0]).toContain('"data":{"n":9007199254740993, "x":1.0, "x":"\\ud800"}}}');
    expect(sink.lines[0]!.event).toMatchObject({ id: 'i1', source: 'ci', type: 'deploy.done', subject: 's"1' });
    expect(sink.lines[1]!.event).toEqual({
      id: `${epoch()}:3`,
      source: '/agent/tester',
      type: 'a',
      time: expect.any(String),
      data: null,
    });
  });

  test('nobody can forge an event of ours: published ones are never believed', async () => {
    const items: unknown[] = [];
    world.log.batch$.subscribe({ next: (batch) => items.push(...batch), error: () => undefined });
    await say([
      { type: 'x.task', data: 'task.completed\t"t"\t{}\ntask.completed' },
      { type: 'a"b', id: '\u00e9', data: null },
    ]);
    await until(() => items.length > 0);
    const events = items.flatMap((item) => (item as { events: { own: boolean; type: string; line: string }[] }).events);
    expect(events.filter(({ type }) => type !== 'epoch.began').map(({ own, type }) => [own, type])).toEqual([
      [false, 'x.task'],
      [false, 'a"b'],
    ]);
    for (const { line } of events) JSON.parse(line);
  });

  test('reserved words and large data fail their item alone', async () => {
    const { events } = await say([
      { type: 'task.completed' },
      { type: 'fine', data: 'x'.repeat(65_534) },
      { type: 'fine', data: 'x'.repeat(65_535) },
      { type: 'feed' },
      { type: 'tasks.x', data: 'é'.repeat(40_000) },
      { type: 'tasks.x' },
    ]);
    expect(events.map((event) => ('error' in event ? event.error.code : 'ok'))).toEqual([
      'RESERVED_TYPE',
      'ok',
      'TOO_LARGE',
      'RESERVED_TYPE',
      'TOO_LARGE',
      'ok',
    ]);
  });

  test('malformed types and too many events are refused by the schema', () => {
    for (const type of ['', 'a..b', '*', 'a.>', 'a b', 'a\tb', 'a\nb', '.', 'x'.repeat(201)]) {
      expect(publish.params.safeParse({ events: [{ type }] }).success, type).toBe(false);
    }
    expect(publish.params.safeParse({ events: Array(1001).fill({ type: 'a' }) }).success).toBe(false);
    expect(publish.params.safeParse({ events: [] }).success).toBe(false);
  });

  test('the same id from the same source is a duplicate at the first place; from another it is not', async () => {
    const one = { type: 'a', id: 'x', source: 'b' };
    const { events } = await say([one, one, { ...one, source: 'c' }, { ...one, source: '', id: 'bx' }].slice(0, 3));
    const at = (offset: number): string => `${epoch()}:${offset}`;
    expect(events).toEqual([{ position: at(2) }, { position: at(2), duplicate: true }, { position: at(3) }]);
    expect((await say([one])).events).toEqual([{ position: at(2), duplicate: true }]);
    expect(
      (
        await say([
          { type: 'a', id: 'x' },
          { type: 'a', id: 'x' },
        ])
      ).events[1],
    ).toMatchObject({ duplicate: true });
  });

  test('after the window a repeat counts as new, even before anybody swept', async () => {
    await world.stop();
    world = await World.start(redis, { settings: { log: { publishWindowMs: 100 } } });
    await say([{ type: 'a', id: 'x' }]);
    await new Promise((resolve) => setTimeout(resolve, 120));
    expect((await say([{ type: 'a', id: 'x' }])).events[0]).not.toHaveProperty('duplicate');
  });

  test('what many callers publish in one turn goes in few scripts, in order', async () => {
    await Promise.all(upTo(1000).map((n) => say([{ type: 'a', data: { n } }])));
    const entries = await redis.client().xlen('sb:{default}:log');
    expect(entries).toBeLessThan(20);
    const sink = new FakeSink();
    world.router
      .open(sink)
      .subscribe({ namespace: 'default', filter: { types: ['a'], where: {} }, at: { epoch: epoch(), offset: 1 } });
    await until(() => sink.numbers.length === 1000);
    expect(sink.numbers).toEqual(upTo(1000));
  });
});

describe('feed.read', () => {
  test('pages join without a hole and without a repeat, inside entries too', async () => {
    for (let n = 1; n <= 300; n += 3) await world.emit(['a.b', { n }], ['a.b', { n: n + 1 }], ['a.b', { n: n + 2 }]);
    const numbers: number[] = [];
    let from: string = 'all';
    for (let pages = 0; pages < 100; pages++) {
      const page: { events: { event: { data?: unknown } }[]; next: string } = await look({ from, limit: 7 });
      numbers.push(...page.events.map(({ event }) => (event.data as { n?: number }).n ?? 0));
      if (page.next === from) break;
      from = page.next;
    }
    expect(numbers.slice(1)).toEqual(upTo(300));
    expect(from).toBe(world.namespace.seenPosition);
  });

  test('types, to and limit bound what comes', async () => {
    await world.emit(['a.b', { n: 1 }], ['c.d', { n: 2 }], ['a.b', { n: 3 }], ['a.b', { n: 4 }], ['c.d', { n: 5 }]);
    const at = (offset: number): string => `${epoch()}:${offset}`;
    const offsets = async (params: object): Promise<[number[], string]> => {
      const { events, next } = await look(params);
      return [events.map(({ offset }) => offset), next];
    };
    expect(await offsets({ from: at(1), types: ['a.*'] })).toEqual([[2, 4, 5], at(6)]);
    expect(await offsets({ from: at(1), to: at(4) })).toEqual([[2, 3, 4], at(4)]);
    expect(await offsets({ from: at(3), to: at(2) })).toEqual([[], at(3)]);
    expect(await offsets({ from: at(2), limit: 2 })).toEqual([[3, 4], at(4)]);
    expect(await offsets({ from: at(6) })).toEqual([[], at(6)]);
    expect(await offsets({ from: { last: 2 } })).toEqual([[5, 6], at(6)]);
    expect(await offsets({ from: at(1), types: ['x'], to: at(3) })).toEqual([[], at(3)]);
  });

  test('a page stays within the line, whatever the limit', async () => {
    const data = 'x'.repeat(60_000);
    await Promise.all(upTo(40).map((n) => say([{ type: 'big', data: { n, data } }])));
    const sizes: number[] = [];
    const numbers: number[] = [];
    for (let from = 'all'; numbers.length < 40 && sizes.length < 40; ) {
      const page = await look({ from, limit: 1000, types: ['big'] });
      sizes.push(JSON.stringify(page).length);
      numbers.push(...page.events.map(({ event }) => (event.data as { n: number }).n));
      from = page.next;
    }
    expect(numbers).toEqual(upTo(40));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(world.config.gateway.lineBytes);
  });

  test('positions are judged as in a subscription', async () => {
    await world.emitMany(20);
    await redis.client().xtrim('sb:{default}:log', 'MINID', '11-0');
    await redis.client().hset('sb:{default}:meta', 'tail', 10);
    const lost = (reason: string) =>
      expect.objectContaining({ code: 'POSITION_LOST', details: expect.objectContaining({ reason }) });
    await expect(look({ from: `${epoch()}:4` })).rejects.toEqual(lost('trimmed'));
    await expect(look({ from: `${epoch()}:400` })).rejects.toEqual(lost('ahead'));
    await expect(look({ from: 'zzz:1' })).rejects.toEqual(lost('fork'));
    await expect(look({ from: 'zzz' })).rejects.toMatchObject({ code: 'BAD_POSITION' });
    await expect(look({ from: 'all', to: 'zzz:5' })).rejects.toEqual(lost('fork'));
    await expect(look({ from: 'all', types: ['a..'] })).rejects.toMatchObject({ code: 'BAD_FILTER' });
    expect((await look({ from: 'all' })).events.length).toBe(11);
  });
});
