import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { subscribe, unsubscribe } from '../../src/feed/index.js';
import type { FeedTail } from '../../src/gateway/sinks.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { call } from './call.js';
import { FakeSink, upTo, World } from './world.js';

let redis: TestRedis;
let world: World;
let sink: FakeSink;
let tail: FeedTail;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(async () => {
  world = await World.start(redis);
  sink = new FakeSink();
  tail = world.router.open(sink);
});
afterEach(async () => {
  await world.stop();
  await redis.client().flushall();
});

const ask = (params: object, feed = tail) => call(world, feed, subscribe, { types: ['>'], ...params });
const headOf = (): { epoch: string; offset: number } => {
  const [epoch, offset] = world.namespace.seenPosition.split(':') as [string, string];
  return { epoch, offset: Number(offset) };
};
const refused = (code: string, details?: object) =>
  expect.objectContaining({ code, ...(details ? { details: expect.objectContaining(details) } : {}) });
async function newEpoch(replid: string): Promise<void> {
  await redis.client().hset('sb:{default}:meta', 'replid', replid);
  await world.emit(['a.b', {}]);
}

describe('where a subscription begins', () => {
  test('F6: at the head of a log that nobody has written to, and misses nothing from there', async () => {
    await world.stop();
    await redis.client().flushall();
    world = await World.start(redis, { name: 'fresh' });
    await redis.client().flushall();
    tail = world.router.open(sink);
    const reply = await ask({}, tail);
    const { epoch } = headOf();
    expect(reply).toEqual({ subscription: 's1', from: `${epoch}:1`, head: `${epoch}:1`, missed: 0 });
    await world.emit(['a.b', { n: 1 }]);
    await until(() => sink.numbers.includes(1));
    expect(sink.numbers).toEqual([1]);
  });

  test('at Redis’ head, though the reader of this daemon lags behind it', async () => {
    await world.emitMany(40);
    const reply = await ask({});
    const { epoch, offset } = headOf();
    expect(reply).toMatchObject({ from: `${epoch}:${offset}`, head: `${epoch}:${offset}`, missed: 0 });
    await world.emitMany(3, 'a.b', 41);
    await until(() => sink.numbers.at(-1) === 43);
    expect(sink.numbers).toEqual([41, 42, 43]);
  });

  test('from all, from a position, from the last n', async () => {
    await world.emitMany(50);
    const { epoch, offset } = headOf();
    expect(await ask({ from: 'all' })).toEqual({
      subscription: 's1',
      from: `${epoch}:0`,
      head: `${epoch}:${offset}`,
      missed: offset,
    });
    await until(() => sink.numbers.length === 50);
    const others = [{ last: 5 }, { last: 5000 }, `${epoch}:${offset - 3}`, `${epoch}:0`].map(async (from) => {
      const own = new FakeSink();
      await ask({ from }, world.router.open(own));
      await until(() => own.numbers.at(-1) === 50);
      return own.numbers.length;
    });
    expect(await Promise.all(others)).toEqual([5, 50, 3, 50]);
  });

  test('from an instant: the first event at or after it', async () => {
    const instants: number[] = [];
    for (let n = 1; n <= 60; n++) {
      await world.emit(['a.b', { n }], ['a.b', { n }]);
      if (n % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 700));
    }
    const rows = (await redis.client().xrange('sb:{default}:log', '-', '+')) as [string, string[]][];
    for (const [, fields] of rows) instants.push(Number(fields[5]));
    for (const at of [
      instants[0]! - 5000,
      instants[21]!,
      instants[30]! + 1,
      instants[41]! - 1,
      instants.at(-1)! + 5000,
    ]) {
      const found = await ask({ from: { at: new Date(at).toISOString() } }, world.router.open(new FakeSink()));
      const before = rows.filter(([, fields]) => Number(fields[5]) < at).at(-1);
      expect(found.from, `at ${at - instants[0]!}`).toBe(`${headOf().epoch}:${before ? before[0].split('-')[0] : 0}`);
    }
  });

  test('malformed and impossible positions are BAD_POSITION', async () => {
    await world.emitMany(5);
    await newEpoch('second');
    const { epoch, offset } = headOf();
    for (const from of [
      'latest',
      '5',
      'x:',
      ':5',
      `${epoch}:-1`,
      `${epoch}:1.5`,
      `${epoch}:99999999999999999`,
      `${epoch}:${offset - 3}`,
    ]) {
      await expect(ask({ from, onGap: 'skip' }), from).rejects.toEqual(refused('BAD_POSITION'));
    }
    expect(tail.position).toBeUndefined();
  });

  test('ahead of the head', async () => {
    const { epoch, offset } = headOf();
    const head = `${epoch}:${offset}`;
    await expect(ask({ from: `${epoch}:${offset + 1}` })).rejects.toEqual(
      refused('POSITION_LOST', { reason: 'ahead', head }),
    );
    expect(await ask({ from: `${epoch}:${offset + 1}`, onGap: 'skip' })).toMatchObject({ from: head });
    await until(() => sink.lines.length > 0);
    expect(sink.lines[0]).toMatchObject({ op: 'gap', to: head, reason: 'fork' });
  });

  test('F5: trimmed, with the exact number, or an announced gap', async () => {
    await world.emitMany(30);
    const { epoch, offset } = headOf();
    await redis.client().xtrim('sb:{default}:log', 'MINID', '21-0');
    await redis.client().hset('sb:{default}:meta', 'tail', 20);
    const details = { reason: 'trimmed', lost: 13, tail: `${epoch}:20`, head: `${epoch}:${offset}` };
    await expect(ask({ from: `${epoch}:7` })).rejects.toEqual(refused('POSITION_LOST', details));
    expect(await ask({ from: `${epoch}:7`, onGap: 'skip' })).toMatchObject({
      from: `${epoch}:20`,
      missed: offset - 20,
    });
    await until(() => sink.offsets.length === offset - 20);
    expect(sink.lines[0]).toEqual({ op: 'gap', from: `${epoch}:7`, to: `${epoch}:20`, lost: 13, reason: 'trimmed' });
    expect(sink.offsets[0]).toBe(21);
    expect(await ask({ from: `${epoch}:20` }, world.router.open(new FakeSink()))).toMatchObject({
      from: `${epoch}:20`,
    });
  });

  test('F8: of an epoch that was rewound, and of one that is unknown', async () => {
    await world.emitMany(10);
    const old = headOf();
    await redis.client().hset('sb:{default}:meta', 'offset', old.offset - 4, 'replid', 'second');
    const ids = (await redis.client().xrevrange('sb:{default}:log', '+', '-', 'COUNT', 4)) as [string, unknown][];
    await redis.client().xdel('sb:{default}:log', ...ids.map(([id]) => id));
    await redis.client().xsetid('sb:{default}:log', `${old.offset - 4}-0`);
    await world.emitMany(10, 'a.b', 7);
    const { epoch } = headOf();
    const to = `${epoch}:${old.offset - 4}`;
    await expect(ask({ from: `${old.epoch}:${old.offset}` })).rejects.toEqual(
      refused('POSITION_LOST', { reason: 'fork', lost: 4 }),
    );
    expect(await ask({ from: `${old.epoch}:${old.offset}`, onGap: 'skip' })).toMatchObject({ from: to });
    await until(() => sink.numbers.at(-1) === 16);
    expect(sink.lines[0]).toEqual({ op: 'gap', from: `${old.epoch}:${old.offset}`, to, lost: 4, reason: 'fork' });
    expect(sink.numbers).toEqual(upTo(16).slice(6));

    const before = new FakeSink();
    await ask({ from: `${old.epoch}:${old.offset - 5}` }, world.router.open(before));
    await until(() => before.numbers.at(-1) === 16);
    expect(before.numbers).toEqual(upTo(16).slice(5));
    expect(before.ops('position')).toEqual([{ op: 'position', position: to }]);

    const unknown = refused('POSITION_LOST', { reason: 'fork' });
    await expect(ask({ from: 'zzz:5' }, world.router.open(new FakeSink()))).rejects.toEqual(unknown);
    expect(await ask({ from: 'zzz:5', onGap: 'skip' }, world.router.open(new FakeSink()))).toMatchObject({
      from: `${old.epoch}:0`,
    });
  });

  test('the end of an earlier epoch and the beginning of the next are the same place', async () => {
    await world.emitMany(3);
    const old = headOf();
    await newEpoch('second');
    const { epoch, offset } = headOf();
    const sinks = [new FakeSink(), new FakeSink()];
    await ask({ from: `${old.epoch}:${old.offset}` }, world.router.open(sinks[0]!));
    await ask({ from: `${epoch}:${old.offset}` }, world.router.open(sinks[1]!));
    await until(() => sinks.every((one) => one.offsets.at(-1) === offset));
    expect(sinks.map((one) => one.offsets.length)).toEqual([2, 2]);
    expect(sinks.map((one) => one.ops('position').length)).toEqual([1, 0]);
  });
});

describe('several subscriptions of one connection', () => {
  test('in one message with the same `from` they begin at one place', async () => {
    await world.emit(['a.a', { n: 1 }], ['b.b', { n: 2 }], ['c.c', { n: 3 }], ['a.a', { n: 4 }]);
    const { epoch } = headOf();
    const from = `${epoch}:1`;
    const replies = await Promise.all([
      ask({ types: ['a.*'], from }),
      ask({ types: ['b.*'], from }),
      ask({ types: ['d.*'] }),
    ]);
    expect(replies.map((reply) => reply.subscription)).toEqual(['s1', 's2', 's3']);
    expect(replies.slice(0, 2).map((reply) => reply.from)).toEqual([from, from]);
    await until(() => sink.numbers.length === 3);
    expect(sink.numbers).toEqual([1, 2, 4]);
  });

  test('a later one brings no `from` of its own; absent or new, it widens the cursor', async () => {
    await world.emitMany(3);
    await ask({ types: ['x'] });
    sink.message++;
    const from = `${headOf().epoch}:1`;
    for (const other of [from, 'all', { last: 2 }, { at: new Date(0).toISOString() }]) {
      await expect(ask({ from: other })).rejects.toEqual(refused('BAD_POSITION'));
    }
    expect(await ask({ types: ['a.b'], from: 'new' })).toMatchObject({ subscription: 's2', missed: 0 });
    await world.emit(['a.b', { n: 9 }], ['x', { n: 10 }]);
    await until(() => sink.numbers.length === 2);
    expect(sink.numbers).toEqual([9, 10]);
  });

  test('another `from` beside the first in its message is refused too', async () => {
    const { epoch } = headOf();
    const [first, second] = await Promise.allSettled([ask({ from: `${epoch}:0` }), ask({ from: `${epoch}:1` })]);
    expect([first.status, second.status]).toEqual(['fulfilled', 'rejected']);
  });

  test('if the first was refused the next one makes the cursor', async () => {
    const [first, second] = await Promise.allSettled([ask({ from: 'zzz:1' }), ask({ from: 'all' })]);
    expect([first.status, second.status]).toEqual(['rejected', 'fulfilled']);
  });

  test('after the last was ended, the next may bring a `from` again', async () => {
    await world.emitMany(3);
    const { subscription } = await ask({});
    await call(world, tail, unsubscribe, { subscription });
    sink.message++;
    expect(await ask({ from: 'all' })).toMatchObject({ subscription: 's2' });
    await until(() => sink.numbers.length === 3);
    await expect(call(world, tail, unsubscribe, { subscription })).rejects.toEqual(refused('NOT_FOUND'));
  });
});

describe('filters', () => {
  test('malformed patterns and unknown attributes are BAD_FILTER', async () => {
    for (const types of [['a..b'], ['.a'], ['a.'], ['a.>.b'], ['a*'], ['>a'], ['a b'], ['a\tb'], ['ok', '']]) {
      await expect(ask({ types }), `${types}`).rejects.toThrow();
      if (!types.includes('')) await expect(ask({ types }), `${types}`).rejects.toEqual(refused('BAD_FILTER'));
    }
    await expect(ask({ where: { colour: 'red' } })).rejects.toEqual(refused('BAD_FILTER'));
    await expect(ask({ where: { __proto__x: 'a' } })).rejects.toEqual(refused('BAD_FILTER'));
    expect(tail.position).toBeUndefined();
  });

  test('bounds of the schema', () => {
    const ok = { types: ['a'] };
    for (const bad of [
      {},
      { types: [] },
      { types: Array(33).fill('a') },
      { types: 'a' },
      { ...ok, from: 5 },
      { ...ok, from: { last: -1 } },
      { ...ok, from: { at: 'now' } },
      { ...ok, onGap: 'x' },
      { ...ok, more: 1 },
    ]) {
      expect(subscribe.params.safeParse(bad).success, JSON.stringify(bad)).toBe(false);
    }
  });
});
