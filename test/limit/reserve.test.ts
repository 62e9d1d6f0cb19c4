import { describe, expect, test } from 'vitest';
import { type Any, fresh, limitOf, refused, reserve, settle, usage, useWorld, watcherOf } from './support.js';

const { daemon, current } = useWorld();
const second = 1000;
const minute = 60 * second;

describe('a window', () => {
  test('gives what it has, says what is left and when the next fits', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 3, perMs: minute } });
    const first = await reserve(wire, name, { requests: 2 });
    expect(first).toMatchObject({ state: 'granted', remaining: { requests: 1 }, validMs: 15_000 });
    expect(first.resetMs).toBeGreaterThan(minute - second);
    expect(first.fence).toBeGreaterThan(1e15);
    const error = await refused(wire, name, { requests: 2 });
    expect(error).toMatchObject({ code: 'LIMITED', retry: true, details: { dimension: 'requests', limit: name } });
    expect(error.afterMs).toBeGreaterThan(minute - 5 * second);
    expect(error.afterMs).toBeLessThanOrEqual(minute + 1);
  });

  test('[L25] a refused ask has charged nothing: a smaller one still fits', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 10, perMs: minute } });
    await reserve(wire, name, { requests: 8 });
    expect((await refused(wire, name, { requests: 5 })).code).toBe('LIMITED');
    expect(await reserve(wire, name, { requests: 2 })).toMatchObject({ state: 'granted', remaining: { requests: 0 } });
  });

  test('[L25] of {second: 1, minute: 100} twenty asks at once take one of each', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', {
      second: { amount: 1, perMs: minute / 2 },
      minute: { amount: 100, perMs: minute },
    });
    const asks = Array.from({ length: 20 }, () =>
      reserve(wire, name, { second: 1, minute: 1 }).catch((error) => error),
    );
    const states = (await Promise.all(asks)).map((reply: Any) => reply.state ?? reply.code).sort();
    expect(states).toEqual([...Array.from({ length: 19 }, () => 'LIMITED'), 'granted']);
    expect((await usage(wire, name)).minute).toEqual({ amount: 100, used: 0, reserved: 1, remaining: 99 });
  });

  test('[L25] [A4b] who is refused for concurrency has not used up the rate', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { rpm: { amount: 60, perMs: minute }, concurrency: { amount: 1 } });
    const slow = await reserve(wire, name, { rpm: 1, concurrency: 1 });
    for (let i = 0; i < 30; i++) {
      expect(await refused(wire, name, { rpm: 1, concurrency: 1 })).toMatchObject({
        code: 'LIMITED',
        details: { dimension: 'concurrency' },
      });
    }
    expect((await usage(wire, name)).rpm.remaining).toBe(59);
    await settle(wire, slow);
    expect((await reserve(wire, name, { rpm: 1, concurrency: 1 })).state).toBe('granted');
    const tight = await limitOf(wire, 'window', { rpm: { amount: 2, perMs: minute }, concurrency: { amount: 1 } });
    const held = await reserve(wire, tight, { rpm: 1, concurrency: 1 });
    await refused(wire, tight, { rpm: 1, concurrency: 1 });
    await settle(wire, held);
    expect((await reserve(wire, tight, { rpm: 1, concurrency: 1 })).state).toBe('granted');
  });

  test('what is settled lower comes back at once, and where it was taken', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 100, perMs: minute } });
    const held = await reserve(wire, name, { tokens: 80 });
    expect(await usage(wire, name)).toEqual({ tokens: { amount: 100, used: 0, reserved: 80, remaining: 20 } });
    expect(await settle(wire, held, { tokens: 30 })).toEqual({ remaining: { tokens: 70 } });
    expect(await usage(wire, name)).toEqual({ tokens: { amount: 100, used: 30, reserved: 0, remaining: 70 } });
  });

  test('what is settled higher is a debt that the next ask waits for', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 100, perMs: minute } });
    const held = await reserve(wire, name, { tokens: 90 });
    expect(await settle(wire, held, { tokens: 130 })).toEqual({ remaining: { tokens: -30 }, debt: { tokens: 30 } });
    expect((await refused(wire, name, { tokens: 1 })).code).toBe('LIMITED');
  });

  test('[L26] [A3] [A4c] settled twice is settled once', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 100, perMs: minute }, concurrency: { amount: 4 } });
    const other = await reserve(wire, name, { tokens: 10, concurrency: 1 });
    const held = await reserve(wire, name, { tokens: 50, concurrency: 1 });
    const answer = { remaining: { concurrency: 3, tokens: 80 } };
    expect(await settle(wire, held, { tokens: 10 })).toEqual(answer);
    expect(await settle(wire, held, { tokens: 0 })).toEqual(answer);
    expect(await settle(wire, held)).toEqual(answer);
    expect((await usage(wire, name)).concurrency).toEqual({ amount: 4, used: 0, reserved: 1, remaining: 3 });
    await settle(wire, other);
  });

  test('a dimension that was not reserved can be settled: the call knows it afterwards only', async () => {
    const wire = await daemon().session();
    const dimensions = { requests: { amount: 10, perMs: minute }, outputTokens: { amount: 1000, perMs: minute } };
    const name = await limitOf(wire, 'window', dimensions);
    const held = await reserve(wire, name, { requests: 1 });
    expect(await settle(wire, held, { outputTokens: 400 })).toEqual({ remaining: { requests: 9, outputTokens: 600 } });
  });
});

describe('a bucket', () => {
  test('is full at first, gives its burst, and fills up by the rate', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'bucket', { requests: { amount: 10, perMs: second, burst: 5 } });
    const got = await Promise.all(Array.from({ length: 5 }, () => reserve(wire, name, { requests: 1 })));
    expect(got.at(-1).remaining.requests).toBeLessThanOrEqual(1);
    const until = Date.now() + 10 * second;
    let last: Any;
    do last = await reserve(wire, name, { requests: 5 }).catch((error) => error);
    while (last.state !== 'granted' && Date.now() < until);
    expect(last.state).toBe('granted');
    // Five more at ten a second: not before half a second after the burst.
    expect((last.fence - got[4].fence) / 1e3).toBeGreaterThan(500 - 110);
  });

  test('[L24] says its bound: the definition shows rate and burst', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'bucket', { requests: { amount: 60, perMs: minute } });
    const shown = await wire.call('limit.get', { name });
    expect(shown).toMatchObject({ kind: 'bucket', dimensions: { requests: { amount: 60, perMs: minute, burst: 60 } } });
  });

  test('an ask may be as large as the burst, though larger than the rate', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'bucket', { tokens: { amount: 10, perMs: minute, burst: 500 } });
    expect(await reserve(wire, name, { tokens: 500 })).toMatchObject({ state: 'granted', remaining: { tokens: 0 } });
    expect((await refused(wire, name, { tokens: 501 })).code).toBe('NEVER_FITS');
  });
});

describe('a budget', () => {
  test('is spent once: no time brings it back, a lower settle and a new definition do', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'budget', { usdMicros: { amount: 1_000_000 } });
    const held = await reserve(wire, name, { usdMicros: 900_000 });
    const error = await refused(wire, name, { usdMicros: 200_000 });
    expect(error).toMatchObject({
      code: 'LIMITED',
      details: { dimension: 'usdMicros', remaining: { usdMicros: 100_000 } },
    });
    expect(error.afterMs).toBeUndefined();
    await settle(wire, held, { usdMicros: 700_000 });
    const rest = await reserve(wire, name, { usdMicros: 300_000 });
    await settle(wire, rest);
    const dimensions = { usdMicros: { amount: 1_500_000 } };
    await wire.call('limit.define', { name, kind: 'budget', dimensions, change: true });
    expect((await usage(wire, name)).usdMicros).toEqual({
      amount: 1_500_000,
      used: 1_000_000,
      reserved: 0,
      remaining: 500_000,
    });
  });
});

describe('a request that comes again', () => {
  test('[L10] under the same id it is the same request: one charge, one fence', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 10, perMs: minute } });
    const reservation = fresh('r');
    const [first, again] = await Promise.all([
      reserve(wire, name, { requests: 3 }, { reservation }),
      reserve(wire, name, { requests: 3 }, { reservation, waitMs: 50 }),
    ]);
    expect(again.fence).toBe(first.fence);
    expect(await reserve(wire, name, { requests: 3 }, { reservation })).toMatchObject({ fence: first.fence });
    expect((await usage(wire, name)).requests.remaining).toBe(7);
    await settle(wire, first);
    expect((await refused(wire, name, { requests: 3 }, { reservation })).code).toBe('CONFLICT');
  });

  test('with another cost, limit or session it is a conflict', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 10, perMs: minute } });
    const other = await limitOf(wire, 'window', { requests: { amount: 10, perMs: minute } });
    const { reservation } = await reserve(wire, name, { requests: 3 });
    expect((await refused(wire, name, { requests: 2 }, { reservation })).code).toBe('CONFLICT');
    expect((await refused(wire, other, { requests: 3 }, { reservation })).code).toBe('CONFLICT');
    const stranger = await daemon().session();
    expect((await refused(stranger, name, { requests: 3 }, { reservation })).code).toBe('CONFLICT');
    expect((await stranger.refused('limit.settle', { reservation })).code).toBe('NOT_FOUND');
  });
});

describe('a definition', () => {
  test('said again is the same; another one is a conflict that shows what holds', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { a: { amount: 1, perMs: second }, b: { amount: 2, perMs: second } });
    const dimensions = { b: { amount: 2, perMs: second }, a: { amount: 1, perMs: second } };
    const watcher = await watcherOf(daemon());
    await wire.call('limit.define', { name, kind: 'window', dimensions });
    const error = await wire.refused('limit.define', { name, kind: 'bucket', dimensions });
    expect(error).toMatchObject({ code: 'CONFLICT', details: { definition: { kind: 'window' } } });
    await wire.call('limit.define', { name, kind: 'bucket', dimensions, change: true });
    await watcher.next((line) => line.op === 'event' && line.event.type === 'limit.defined');
    expect(watcher.events().filter(({ event }) => event.type === 'limit.defined')).toHaveLength(1);
    expect((await wire.call('limit.get', { name })).kind).toBe('bucket');
  });

  test('[L22] made smaller nothing new is given until enough has come back; never more than there was', async () => {
    const wire = await daemon().session();
    const define = (amount: number): Promise<Any> =>
      wire.call('limit.define', { name, kind: 'window', dimensions: { concurrency: { amount } }, change: true });
    const name = await limitOf(wire, 'window', { concurrency: { amount: 10 } });
    const held = await Promise.all(Array.from({ length: 10 }, () => reserve(wire, name, { concurrency: 1 })));
    await define(10);
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    await define(5);
    for (let i = 0; i < 20; i++) expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    expect((await usage(wire, name)).concurrency).toMatchObject({ reserved: 10, remaining: -5 });
    for (const one of held.slice(0, 5)) await settle(wire, one);
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    await settle(wire, held[5]);
    expect((await reserve(wire, name, { concurrency: 1 })).state).toBe('granted');
  });

  test('changed to another kind it owes what is reserved', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 100, perMs: minute } });
    await reserve(wire, name, { tokens: 70 });
    const dimensions = { tokens: { amount: 100, perMs: minute } };
    await wire.call('limit.define', { name, kind: 'bucket', dimensions, change: true });
    expect((await usage(wire, name)).tokens.remaining).toBeLessThan(35);
  });

  // The story: a limit lost its concurrency for a moment, while somebody had some of it. The end of that one then brought back
  // what the new dimension had never given, and one more than it has ran at one time.
  test('that leaves a dimension out and takes it in again still owes what is reserved of it', async () => {
    const wire = await daemon().session();
    const rest = { requests: { amount: 100, perMs: minute } };
    const define = (dimensions: Any): Promise<Any> =>
      wire.call('limit.define', { name, kind: 'window', dimensions, change: true });
    const name = await limitOf(wire, 'window', { ...rest, concurrency: { amount: 2 } });
    const [early, late] = [
      await reserve(wire, name, { concurrency: 1 }),
      await reserve(wire, name, { concurrency: 1 }),
    ];
    await define(rest);
    await settle(wire, early);
    await define({ ...rest, concurrency: { amount: 2 } });
    expect((await usage(wire, name)).concurrency).toMatchObject({ reserved: 1, remaining: 1 });
    await settle(wire, late);
    expect((await usage(wire, name)).concurrency).toMatchObject({ reserved: 0, remaining: 2 });
    expect((await refused(wire, name, { concurrency: 3 })).code).toBe('NEVER_FITS');
    await reserve(wire, name, { concurrency: 2 });
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
  });
});

test('list goes through all limits by name, a page at a time, and by prefix', async () => {
  const wire = await daemon().session();
  const prefix = fresh('listed');
  for (const letter of 'edcba')
    await wire.call('limit.define', { name: `${prefix}-${letter}`, kind: 'budget', dimensions: { n: { amount: 1 } } });
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page: Any = await wire.call('limit.list', { prefix, limit: 2, ...(cursor ? { cursor } : {}) });
    seen.push(...page.limits.map(({ name }: Any) => name));
    cursor = page.cursor;
  } while (cursor);
  expect(seen).toEqual([...'abcde'].map((letter) => `${prefix}-${letter}`));
});

test('the fence of a reservation is stored with it: a clock that goes back gives no lower one', async () => {
  const wire = await daemon().session();
  const client = current().redis.client();
  const name = await limitOf(wire, 'window', { n: { amount: 1000, perMs: minute } });
  // One right behind the other: what is told of them waits for its second, and what is stored must not.
  for (let i = 0; i < 20; i++) {
    const held = await reserve(wire, name, { n: 1 });
    expect(Number(await client.hget('sb:{default}:meta', 'fence'))).toBeGreaterThanOrEqual(held.fence);
    await settle(wire, held);
  }
  client.disconnect();
});
