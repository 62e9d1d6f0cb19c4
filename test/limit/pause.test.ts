import { describe, expect, test } from 'vitest';
import {
  type Any,
  fresh,
  granted,
  grantedAt,
  limitEvent,
  limitOf,
  queueUp,
  refused,
  reserve,
  settle,
  usage,
  useWorld,
  watcherOf,
} from './support.js';

const { daemon, current } = useWorld({ 'limit.rampMs': 1000 });
const minute = 60_000;

describe('limit.penalize', () => {
  test('[A5] nobody is granted anything until it is over, then one tries, and only after it comes a ramp', async () => {
    const agents = await Promise.all(Array.from({ length: 10 }, (_, i) => daemon().session({ agent: `agent-${i}` })));
    const watcher = await watcherOf(daemon());
    const name = await limitOf(agents[0]!, 'window', { requests: { amount: 100, perMs: 1000 } });
    const before = await reserve(agents[0]!, name, { requests: 1 });
    const { blockedUntilAt } = await agents[0]!.call('limit.penalize', { name, afterMs: 400, code: '429' });
    const until = Date.parse(blockedUntilAt);
    expect(until - before.fence / 1000).toBeGreaterThanOrEqual(400);
    const told = await limitEvent(watcher, 'limit.penalized', name);
    expect(told.event.data).toMatchObject({ untilAt: blockedUntilAt, agent: 'agent-0', code: '429' });
    const error = await refused(agents[1]!, name, { requests: 1 });
    expect(error).toMatchObject({ code: 'LIMITED', details: { blockedUntilAt } });
    expect((await agents[1]!.call('limit.get', { name })).blockedUntilAt).toBe(blockedUntilAt);
    const waits = await Promise.all(agents.flatMap((wire) => [0, 1].map(() => queueUp(wire, name, { requests: 1 }))));
    const owner = (i: number): Any => agents[Math.floor(i / 2)]!;
    const probe = await Promise.race(waits.map(async (wait, i) => ({ i, push: await granted(owner(i), wait) })));
    expect(probe.push.fence / 1000).toBeGreaterThanOrEqual(until - 1);
    // It is out alone: nobody else is granted anything before it has come through.
    expect((await refused(agents[3]!, name, { requests: 1 })).code).toBe('LIMITED');
    await limitEvent(watcher, 'limit.granted', name);
    expect(watcher.events().filter(({ event }) => event.type === 'limit.granted')).toHaveLength(1);
    await settle(owner(probe.i), waits[probe.i]);
    const settledAt = (await limitEvent(watcher, 'limit.recovered', name)).event;
    expect(settledAt.data.reason).toBe('probe');
    const pushes = await Promise.all(waits.map((wait, i) => granted(owner(i), wait)));
    const fences = pushes.map(({ fence }) => fence / 1000).sort((a, b) => a - b);
    // Half of 100 a second, one by one: 20 ms apart, where the limit alone would have let all of them go at once.
    const gaps = fences.slice(2).map((at, i) => at - fences[i + 1]!);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(18);
    for (const [i, wait] of waits.entries()) await settle(owner(i), wait);
  });

  test('only tightens: a shorter pause does not end a longer one', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'bucket', { requests: { amount: 10, perMs: 1000 } });
    const first = await wire.call('limit.penalize', { name, afterMs: 60_000 });
    expect(await wire.call('limit.penalize', { name, afterMs: 10 })).toEqual(first);
  });

  test('stops those that wait already within 100 ms, and the probe that fails is followed by another', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { concurrency: { amount: 5 } });
    await wire.call('limit.penalize', { name, afterMs: 0 });
    const probe = await reserve(wire, name, { concurrency: 1 }, { leaseMs: 100 });
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    const waits = await queueUp(wire, name, { concurrency: 1 });
    // The probe ends without a word: the next one tries, alone.
    const push = await granted(wire, waits);
    expect(push.fence).toBeGreaterThan(probe.fence);
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    await wire.call('limit.report', { name, ok: false, latencyMs: 1 });
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    await wire.call('limit.report', { name, ok: true, latencyMs: 1 });
    expect((await reserve(wire, name, { concurrency: 1 })).state).toBe('granted');
    // Half of five at first.
    expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
    await wire.call('session.close', {});
  });

  test('the whole rate is back after two periods of the ramp', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 50, perMs: 200 } });
    await wire.call('limit.penalize', { name, afterMs: 1 });
    const probe = await reserve(wire, name, { requests: 1 }, { waitMs: 5000 });
    if (probe.state === 'waiting') await granted(wire, probe);
    await settle(wire, probe);
    const deadline = Date.now() + 5000;
    let burst: string[] = [];
    do {
      const asks = Array.from({ length: 10 }, () => reserve(wire, name, { requests: 1 }).catch((error) => error));
      burst = (await Promise.all(asks)).map((reply: Any) => reply.state ?? reply.code);
    } while (burst.includes('LIMITED') && Date.now() < deadline);
    expect(new Set(burst)).toEqual(new Set(['granted']));
  });

  test('who waits for concurrency in the ramp is let in as its share rises, and the last one by its end', async () => {
    const [a, b] = await Promise.all([daemon().session({ agent: 'a' }), daemon().session({ agent: 'b' })]);
    const watcher = await watcherOf(daemon());
    const name = await limitOf(a, 'window', { concurrency: { amount: 4 } });
    await a.call('limit.penalize', { name, afterMs: 0 });
    await settle(a, await reserve(a, name, { concurrency: 1 }));
    const { event } = await limitEvent(watcher, 'limit.recovered', name);
    // Half of four is taken; nobody gives anything back or asks for anything from here on.
    for (let i = 0; i < 2; i++) await reserve(a, name, { concurrency: 1 });
    const waits = [await queueUp(b, name, { concurrency: 1 }), await queueUp(b, name, { concurrency: 1 })];
    const after: number[] = [];
    for (const wait of waits) after.push(grantedAt(await granted(b, wait, 5000)) - Date.parse(event.time));
    // Of two seconds: three of four are due after three quarters of them, all at their end.
    expect(after[0]).toBeGreaterThanOrEqual(1499);
    expect(after[1]).toBeGreaterThanOrEqual(1999);
    expect((await usage(b, name)).concurrency).toMatchObject({ reserved: 4, remaining: 0 });
    await Promise.all([a.call('session.close', {}), b.call('session.close', {})]);
  });

  test('is about one limit: another of the same account goes on', async () => {
    const wire = await daemon().session();
    const [one, other] = [
      await limitOf(wire, 'window', { n: { amount: 1, perMs: minute } }),
      await limitOf(wire, 'window', { n: { amount: 1, perMs: minute } }),
    ];
    await wire.call('limit.penalize', { name: one, afterMs: minute });
    expect((await reserve(wire, other, { n: 1 })).state).toBe('granted');
  });

  test('is heard by another daemon at once', async () => {
    const second = await current().another();
    const [here, there] = [await daemon().session(), await second.session()];
    const name = await limitOf(here, 'window', { n: { amount: 10, perMs: minute } });
    await here.call('limit.penalize', { name, afterMs: 300 });
    expect((await refused(there, name, { n: 1 })).code).toBe('LIMITED');
    const waits = await queueUp(there, name, { n: 1 });
    await granted(there, waits);
    await settle(there, waits);
  });
});

describe('limit.observe', () => {
  test('only tightens: the smallest number counts until the reset, and grants are taken off it', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { requests: { amount: 100, perMs: minute } });
    const observe = (remaining: number, resetMs = minute): Promise<Any> =>
      wire.call('limit.observe', { name, dimension: 'requests', remaining, resetMs });
    expect(await observe(500)).toEqual({ remaining: 100 });
    expect(await observe(5)).toEqual({ remaining: 5 });
    expect(await observe(50)).toEqual({ remaining: 5 });
    expect((await reserve(wire, name, { requests: 4 })).remaining).toEqual({ requests: 1 });
    expect((await refused(wire, name, { requests: 2 })).code).toBe('LIMITED');
    expect((await usage(wire, name)).requests).toMatchObject({ amount: 100, remaining: 1 });
  });

  test('with nothing left all stop, until the reset', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'bucket', { tokens: { amount: 1000, perMs: 1000 } });
    await wire.call('limit.observe', { name, dimension: 'tokens', remaining: 0, resetMs: 300 });
    const asked = Date.now();
    const error = await refused(wire, name, { tokens: 10 });
    expect(error.afterMs).toBeLessThanOrEqual(300);
    await granted(wire, await queueUp(wire, name, { tokens: 10 }));
    expect(Date.now() - asked).toBeGreaterThan(200);
  });

  test('what is settled lower comes back to what was observed, too', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 1000, perMs: minute } });
    await wire.call('limit.observe', { name, dimension: 'tokens', remaining: 100, resetMs: minute });
    const held = await reserve(wire, name, { tokens: 100 });
    expect(await settle(wire, held, { tokens: 20 })).toEqual({ remaining: { tokens: 80 } });
  });
});

describe('[R13] an adaptive limit', () => {
  const spec = { dimension: 'requests', min: 50, max: 200, targetMs: 100 };
  const adaptive = async (): Promise<{
    wire: Any;
    name: string;
    after: (reports: [boolean, number][]) => Promise<number>;
  }> => {
    const wire = await daemon().session();
    const dimensions = { requests: { amount: 100, perMs: minute } };
    const name = await limitOf(wire, 'adaptive', dimensions, { adaptive: spec });
    const after = async (reports: [boolean, number][]): Promise<number> => {
      for (const [ok, latencyMs] of reports) await wire.call('limit.report', { name, ok, latencyMs });
      return (await usage(wire, name)).requests.amount;
    };
    return { wire, name, after };
  };
  const times = (count: number, report: [boolean, number]): [boolean, number][] =>
    Array.from({ length: count }, () => report);
  /** A judgement needs a second since the last one; a report that changes nothing is made until it has come. */
  const judged = async (
    after: (reports: [boolean, number][]) => Promise<number>,
    report: [boolean, number],
  ): Promise<number> => {
    const deadline = Date.now() + 5000;
    const start = await after(times(9, report));
    let amount = start;
    while (amount === start && Date.now() < deadline) {
      amount = await after([report]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return amount;
  };

  test('×0.9 when it is slow, ×0.9 when it fails, ×1.1 when it is fast and sure', async () => {
    const [slow, failing, fast] = await Promise.all([adaptive(), adaptive(), adaptive()]);
    const amounts = await Promise.all([
      judged(slow.after, [true, 151]),
      judged(failing.after, [false, 10]),
      judged(fast.after, [true, 49]),
    ]);
    expect(amounts).toEqual([90, 90, 110]);
    expect(await judged(fast.after, [true, 49])).toBe(121);
  });

  test('stays between: neither slow nor fast, and never below min or above max', async () => {
    const { name, wire, after } = await adaptive();
    await wire.call('limit.define', {
      name,
      kind: 'adaptive',
      dimensions: { requests: { amount: 51, perMs: minute } },
      adaptive: { ...spec, max: 52 },
      change: true,
    });
    expect(await judged(after, [true, 151])).toBe(50);
    const steady = await adaptive();
    await steady.after(times(30, [true, 100]));
    await new Promise((resolve) => setTimeout(resolve, 1100));
    expect(await steady.after(times(12, [true, 100]))).toBe(100);
  });

  test('what it has come to ends with its definition, also where it is adaptive no longer', async () => {
    const { wire, name, after } = await adaptive();
    expect(await judged(after, [true, 400])).toBe(90);
    const dimensions = { requests: { amount: 100, perMs: minute } };
    await wire.call('limit.define', { name, kind: 'window', dimensions, change: true });
    expect((await usage(wire, name)).requests).toMatchObject({ amount: 100, remaining: 100 });
  });

  test('the amount it has come to is the one that is granted', async () => {
    const { wire, name, after } = await adaptive();
    expect(await judged(after, [true, 400])).toBe(90);
    expect((await reserve(wire, name, { requests: 90 })).remaining).toEqual({ requests: 0 });
    expect((await refused(wire, name, { requests: 1 })).code).toBe('LIMITED');
  });
});

describe('bad input', () => {
  test.each([
    ['limit.penalize', { afterMs: 1 }, 'name'],
    ['limit.penalize', { name: 'n' }, 'afterMs'],
    ['limit.penalize', { name: 'n', afterMs: -1 }, 'afterMs'],
    ['limit.penalize', { name: 'n', afterMs: 1, code: 429 }, 'code'],
    ['limit.penalize', { name: 'n', afterMs: 1, more: 1 }, 'more'],
    ['limit.observe', { name: 'n', dimension: 'd', resetMs: 1 }, 'remaining'],
    ['limit.observe', { name: 'n', dimension: 'd', remaining: -1, resetMs: 1 }, 'remaining'],
    ['limit.observe', { name: 'n', dimension: 'd', remaining: 1, resetMs: 0 }, 'resetMs'],
    ['limit.observe', { name: 'n', remaining: 1, resetMs: 1 }, 'dimension'],
    ['limit.observe', { name: 'n', dimension: 'd', remaining: 1, resetMs: 1, x: 1 }, 'x'],
    ['limit.report', { name: 'n', latencyMs: 1 }, 'ok'],
    ['limit.report', { name: 'n', ok: 1, latencyMs: 1 }, 'ok'],
    ['limit.report', { name: 'n', ok: true }, 'latencyMs'],
    ['limit.report', { name: 'n', ok: true, latencyMs: -1 }, 'latencyMs'],
    ['limit.report', { name: 'n', ok: true, latencyMs: 1, x: 1 }, 'x'],
  ])('%s with %j is BAD_REQUEST at %s', async (op, params, path) => {
    const wire = await daemon().session();
    expect(await wire.refused(op, params)).toMatchObject({ code: 'BAD_REQUEST', path });
  });

  test('of an unknown limit is NOT_FOUND, of a dimension that is none INVALID', async () => {
    const wire = await daemon().session();
    const name = fresh();
    for (const [op, more] of [
      ['limit.penalize', { afterMs: 1 }],
      ['limit.observe', { dimension: 'd', remaining: 1, resetMs: 1 }],
      ['limit.report', { ok: true, latencyMs: 1 }],
    ] as const)
      expect((await wire.refused(op, { name, ...more })).code).toBe('NOT_FOUND');
    const known = await limitOf(wire, 'window', { n: { amount: 1, perMs: 1 }, concurrency: { amount: 1 } });
    for (const dimension of ['x', 'concurrency'])
      expect((await wire.refused('limit.observe', { name: known, dimension, remaining: 1, resetMs: 1 })).code).toBe(
        'INVALID',
      );
  });
});
