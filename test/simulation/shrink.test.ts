import { expect, test } from 'vitest';
import { shrink } from './shrink.js';

const options = { tries: 1, runsMax: 500 };

test('a history is cut down to the steps that it takes to fail', async () => {
  const needed = [3, 17, 40];
  const kept = await shrink(120, async (some) => needed.every((step) => some.includes(step)), options);
  expect(kept).toEqual(needed);
});

test('one step is left alone, and a bound on the runs is kept', async () => {
  expect(await shrink(1, async () => true, options)).toEqual([0]);
  let runs = 0;
  const fails = async (some: readonly number[]): Promise<boolean> => {
    runs++;
    return some.includes(99);
  };
  const kept = await shrink(100, fails, { tries: 1, runsMax: 5 });
  expect(runs).toBe(5);
  expect(kept).toContain(99);
});
