import { expect, test } from 'vitest';
import { type OnceOp, onceModel } from './once.js';
import { linearize } from './search.js';

const keepMs = 100;
const agent = 'a';
const begin = (fence: number, call: number, ret: number, as: 'new' | 'unknown' = 'new'): OnceOp => ({
  what: 'begin',
  agent,
  fence,
  as,
  call,
  ret,
});
const close = (fence: number, to: 'done' | 'new' | 'unknown', call: number, ret: number): OnceOp => ({
  what: 'close',
  agent,
  fence,
  to,
  value: `made ${fence}`,
  call,
  ret,
});
const answer = (value: string, call: number, ret: number): OnceOp => ({ what: 'answer', agent, value, call, ret });
const busy = (call: number, ret: number): OnceOp => ({ what: 'busy', agent, call, ret });

const holds = (...ops: OnceOp[]): boolean => linearize(ops, onceModel(keepMs), 10_000).ok;

test('one acts, the others hear that it does and what it made', () => {
  expect(
    holds(begin(1, 0, 2), busy(1, 3), close(1, 'done', 5, 7), answer('made 1', 6, 8), answer('made 1', 9, 10)),
  ).toBe(true);
  expect(holds(begin(1, 0, 2), close(1, 'new', 3, 4), begin(2, 5, 6), close(2, 'done', 7, 8))).toBe(true);
  expect(holds(begin(1, 0, 2), close(1, 'unknown', 3, 4), begin(2, 5, 6, 'unknown'))).toBe(true);
});

test('two at a time, a second begin after the end, and a forgotten one before its time are found', () => {
  expect(holds(begin(1, 0, 2), begin(2, 3, 4), close(1, 'done', 5, 6))).toBe(false);
  expect(holds(begin(1, 0, 2), close(1, 'done', 3, 4), begin(2, 5, 6))).toBe(false);
  expect(holds(begin(1, 0, 2), close(1, 'done', 3, 4), begin(2, 90, 102))).toBe(false);
  expect(holds(begin(1, 0, 2), close(1, 'done', 3, 4), begin(2, 90, 103))).toBe(true);
});

test('what somebody left without a word is not handed on as new', () => {
  expect(holds(begin(1, 0, 2), close(1, 'unknown', 3, 9), begin(2, 5, 6))).toBe(false);
  expect(holds(begin(1, 0, 2), close(1, 'new', 3, 4), begin(2, 5, 6, 'unknown'))).toBe(false);
});

test('another answer than what was made, one before it was made, and busy while nobody is at it are found', () => {
  expect(holds(begin(1, 0, 2), close(1, 'done', 3, 4), answer('made 2', 5, 6))).toBe(false);
  expect(holds(begin(1, 0, 2), answer('made 1', 2.5, 2.8), close(1, 'done', 3, 4))).toBe(false);
  expect(holds(busy(0, 1), begin(1, 2, 3))).toBe(false);
  expect(holds(begin(1, 0, 2), close(1, 'new', 3, 4), busy(5, 6))).toBe(false);
  expect(holds(begin(2, 0, 2), close(2, 'new', 3, 4), begin(1, 5, 6))).toBe(false);
});
