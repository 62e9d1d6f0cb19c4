import { expect, test } from 'vitest';
import type { TapEvent } from '../tap.js';
import { bucketOf, capOf, type Grant, pauseOf, windowOf } from './bounds.js';
import { runLimits } from './history.js';
import { drawPlan, type Spend } from './plan.js';
import { spentOf } from './spent.js';
import type { Try } from './tries.js';
import { replayed, type Told } from './waits.js';

/** How long fresh seeds are tried. */
const seconds = Number(process.env.SIM_SECONDS ?? 10);
const faults = 12;
const historyMs = 90_000;

test(
  `fresh seeds for ${seconds} s: limits keep their bounds and lose no money, every wait ends once, and what is done once is done once`,
  async () => {
    const until = performance.now() + seconds * 1000;
    // A history may be hurt so early that nothing in it was granted: one such judges nothing, and another follows.
    let judged = 0;
    do {
      const seed = Math.floor(Math.random() * 1e9);
      console.log(`limits: seed ${seed}`);
      const { problems, granted, begun } = await runLimits(drawPlan(seed, { faults }));
      expect(problems, `again: npm run sim -- --limits --seed ${seed} --steps ${faults}`).toEqual([]);
      judged += Math.min(granted, begun);
    } while (performance.now() < until || judged === 0);
  },
  seconds * 1000 + historyMs,
);

const grant = (from: number, to: number, n: number, refund?: [actual: number, from: number, to: number]): Grant => ({
  who: `${from}`,
  from,
  to,
  cost: { requests: n },
  ...(refund ? { refund: { actual: { requests: refund[0] }, from: refund[1], to: refund[2] } } : {}),
});

test('the judge of a window finds one too many in a span of it, and no more than that', () => {
  const wrong = (...grants: Grant[]): string | undefined => windowOf(grants, 'requests', 4, 100);
  expect(wrong(grant(0, 1, 2), grant(50, 51, 2), grant(101, 102, 2))).toBeUndefined();
  expect(wrong(grant(0, 1, 2), grant(50, 51, 2), grant(90, 91, 1))).toContain('5 requests in 100 ms');
  // Nobody knows whether the last one came within the span.
  expect(wrong(grant(0, 1, 2), grant(50, 51, 2), grant(90, 110, 1))).toBeUndefined();
  // Back where it was taken from, but only once it was told.
  expect(wrong(grant(0, 1, 4, [1, 20, 21]), grant(50, 51, 3))).toBeUndefined();
  expect(wrong(grant(0, 1, 4, [1, 20, 21]), grant(50, 51, 4))).toContain('5 requests');
  expect(wrong(grant(0, 1, 4, [1, 120, 121]), grant(50, 51, 3))).toContain('7 requests');
});

test('the judge of a bucket finds more than it held, what flowed into it and what came back', () => {
  const wrong = (...grants: Grant[]): string | undefined =>
    bucketOf(grants, 'requests', { amount: 10, perMs: 100, burst: 4 });
  expect(wrong(grant(0, 1, 4), grant(20, 21, 2))).toBeUndefined();
  expect(wrong(grant(0, 1, 4), grant(10, 11, 2))).toContain('6 requests');
  expect(wrong(grant(-50, -49, 4, [2, 5, 6]), grant(0, 1, 4), grant(10, 11, 2))).toBeUndefined();
});

test('the judges of a cap and of a pause find what was granted against them', () => {
  const cap = { from: 0, to: 2, remaining: 3, resetMs: 100 };
  expect(capOf([grant(10, 11, 2), grant(20, 21, 1), grant(200, 201, 9)], 'requests', cap)).toBeUndefined();
  expect(capOf([grant(10, 11, 2), grant(20, 21, 2)], 'requests', cap)).toContain('the provider had 3');
  expect(pauseOf([grant(0, 3, 1), grant(90, 110, 1)], { from: 0, to: 2, afterMs: 100 })).toBeUndefined();
  expect(pauseOf([grant(3, 5, 1)], { from: 0, to: 2, afterMs: 100 })).toContain('granted in a pause');
});

const spend = (agent: string, name: string | undefined, cost: number, actual?: number): Try<Spend> => ({
  agent,
  number: 1,
  askedAt: 0,
  round: {
    limit: 'purse',
    cost: { usd: cost },
    waitMs: 0,
    holdMs: 0,
    restMs: 0,
    ...(actual === undefined ? {} : { actual: { usd: actual } }),
  },
  ...(name === undefined ? {} : { had: { name, fence: 1, as: 'new', from: 1, to: 2 } }),
  ...(actual === undefined ? {} : { tookAt: 2 }),
});

test('the judge of money knows what was settled, what was lost in full, and what was lost unheard', () => {
  const spent = (tries: Try<Spend>[], ...lost: [string, number][]): number => {
    const told = lost.map(([id, usd]): [string, Told] => [
      id,
      { limit: 'purse', agent: 'a', state: 'lost', lostAt: 1, cost: { usd } },
    ]);
    return spentOf(tries, new Map(told), 'purse', 'usd');
  };
  expect(spent([spend('a', 'r1', 10), spend('a', 'r2', 10, 3), spend('b', undefined, 5)])).toBe(13);
  expect(spent([spend('a', 'r2', 10, 3)], ['r2', 10])).toBe(10);
  expect(spent([spend('a', 'r1', 1), spend('b', undefined, 5)], ['r9', 7])).toBe(8);
});

test('the judge of the log finds a wait that ends twice or never, and a loss of what nobody had', () => {
  const wrong = (...words: string[]): string[] =>
    replayed(
      words.map((word, i): TapEvent => {
        const data = { limit: 'l', reservation: 'r', agent: 'a', session: 's', fence: 1 };
        const at = { epoch: 'e', offset: i + 1, at: i, by: 'd', entry: i + 1 };
        return { ...at, type: `limit.${word}`, subject: 'l', data, own: true, id: '', source: '' };
      }),
    ).problems;
  expect(wrong('waiting', 'granted', 'lost')).toEqual([]);
  expect(wrong('lost')).toEqual([]);
  expect(wrong('waiting', 'waitEnded')).toEqual([]);
  expect(wrong('waiting')).toHaveLength(1);
  expect(wrong('waiting', 'granted', 'waitEnded')).toHaveLength(1);
  expect(wrong('waiting', 'waitEnded', 'granted')).toHaveLength(1);
  expect(wrong('granted')).toHaveLength(1);
  expect(wrong('waiting', 'granted', 'lost', 'lost')).toHaveLength(1);
  expect(wrong('waiting', 'lost')).toHaveLength(1);
});
