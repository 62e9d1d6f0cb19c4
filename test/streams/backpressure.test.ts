import { describe, it } from 'vitest';
import { floors$, pressurePush$, type Sample } from '../../streams/backpressure.js';
import { batch, entry, marbles, published } from './support.js';

const bounds = { low: 100, high: 500, critical: 1000, minRate: 10 };
const calm: Sample = {
  queue: 'q',
  at: 0,
  level: 0,
  depth: 0,
  oldestMs: 0,
  rate: 100,
  utilisation: 0,
  lagMs: 0,
  bounds,
};
const sample = (more: Partial<Sample>): readonly Sample[] => [{ ...calm, ...more }];

/** Samples by letter, and the levels that are expected in their places. */
function levels(
  title: string,
  samples: readonly Partial<Sample>[],
  expected: readonly (number | [number, string])[],
): void {
  it(title, () => {
    marbles(({ hot, expectObservable }) => {
      const letters = 'abcdefghijklmnop'.slice(0, samples.length);
      const values = Object.fromEntries(samples.map((one, i) => [letters[i]!, sample(one)]));
      const floors = expected.map((one, i) => {
        const [level, why] = typeof one === 'number' ? [one, 'depth'] : one;
        return [letters[i]!, [{ queue: 'q', level, why, seen: samples[i]!.level ?? 0 }]];
      });
      expectObservable(floors$(hot(letters, values))).toBe(letters, Object.fromEntries(floors));
    });
  });
}
const depths = (...all: number[]): Partial<Sample>[] => all.map((depth) => ({ depth }));

describe('floors$', () => {
  levels(
    'rises at a threshold and is left at nine tenths of it',
    depths(0, 99, 100, 95, 90, 89, 95),
    [0, 0, 1, 1, 1, 0, 0],
  );
  levels('passes several thresholds at once, up and down', depths(50, 1000, 950, 899, 449, 0), [0, 3, 3, 2, 1, 0]);
  levels(
    'falls from where the queue stands, though it did not see it rise',
    [
      { depth: 950, level: 3 },
      { depth: 899, level: 3 },
      { depth: 460, level: 2 },
    ],
    [3, 2, 2],
  );
  levels(
    'R12: judges the rate only of a backlog that is 10 s old, and lets go above the least rate',
    [
      { at: 0, depth: 120, rate: 0 },
      { at: 9_999, depth: 120, rate: 0 },
      { at: 10_000, depth: 120, rate: 9.9 },
      { at: 11_000, depth: 120, rate: 10.5 },
      { at: 12_000, depth: 120, rate: 12 },
      { at: 13_000, depth: 120, rate: 9 },
      { at: 14_000, depth: 80, rate: 0 },
      { at: 15_000, depth: 120, rate: 0 },
    ],
    [1, 1, [2, 'rate'], [2, 'rate'], 1, [2, 'rate'], 0, 1],
  );
  levels('an idle queue completes nothing and is well', [{ rate: 0 }, { at: 60_000, rate: 0, depth: 50 }], [0, 0]);
  const utilised = (utilisation: number): Partial<Sample> => ({
    utilisation,
    bounds: { ...bounds, utilisation: { on: 0.9, off: 0.7 } },
  });
  levels(
    'R14: utilisation is on at 0.9 and off below 0.7, and means nothing where it was not asked for',
    [utilised(0.89), utilised(0.9), utilised(0.71), utilised(0.7), utilised(0.69), utilised(0.89), { utilisation: 5 }],
    [0, [2, 'utilisation'], [2, 'utilisation'], [2, 'utilisation'], 0, 0, 0],
  );
  levels(
    'an oldest task of a minute, or a daemon that is late, advises a delay',
    [
      { oldestMs: 59_999 },
      { oldestMs: 60_000 },
      { oldestMs: 55_000 },
      { lagMs: 5000 },
      { lagMs: 4600 },
      { lagMs: 4000 },
    ],
    [0, [1, 'age'], [1, 'age'], [1, 'lag'], [1, 'lag'], 0],
  );
  levels(
    'names what asks for most',
    [
      { depth: 600, oldestMs: 70_000 },
      { depth: 120, oldestMs: 70_000 },
    ],
    [2, 1],
  );

  it('keeps queues apart, and forgets one that is missing', () => {
    marbles(({ hot, expectObservable }) => {
      const samples$ = hot('a-b-c', {
        a: [
          { ...calm, depth: 100 },
          { ...calm, queue: 'r', depth: 95 },
        ],
        b: [{ ...calm, queue: 'r', depth: 95 }],
        c: [{ ...calm, depth: 95 }],
      });
      const floor = (queue: string, level: number) => ({ queue, level, why: 'depth' as const, seen: 0 });
      expectObservable(floors$(samples$)).toBe('a-b-c', {
        a: [floor('q', 1), floor('r', 0)],
        b: [floor('r', 0)],
        c: [floor('q', 0)],
      });
    });
  });
});

describe('pressurePush$', () => {
  it('tells the last level of each queue in a batch, and believes only our own scripts', () => {
    const changed = (queue: string, level: number, delayMs?: number) =>
      ['pressure.changed', { queue, level, was: 0, why: 'depth', depth: 9, ...(delayMs ? { delayMs } : {}) }] as const;
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c', {
        a: batch(entry('me', changed('q', 1, 10), changed('r', 2, 50)), entry('other', changed('q', 3, 90))),
        b: batch(published('me', changed('q', 3))),
        c: batch(entry('me', changed('q', 0))),
      });
      expectObservable(pressurePush$(batch$)).toBe('a---c', {
        a: [
          { kind: 'pressure', queue: 'q', level: 3, delayMs: 90 },
          { kind: 'pressure', queue: 'r', level: 2, delayMs: 50 },
        ],
        c: [{ kind: 'pressure', queue: 'q', level: 0, delayMs: undefined }],
      });
    });
  });
});
