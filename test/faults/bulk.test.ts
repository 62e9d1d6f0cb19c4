import { expect, test } from 'vitest';
import { hostileFrames } from './f27-hostile-frames.js';
import { bigVerbs } from './q28-big-verbs.js';
import { leaks } from './q29-leaks.js';

test.each([bigVerbs, leaks, hostileFrames])(
  '$id $title',
  async ({ id, short }) => {
    const measured = await short();
    expect(measured).toMatch(/\S/);
    console.log(`${id}: ${measured}`);
  },
  90_000,
);
