import { expect, test } from 'vitest';
import type { Want } from '../locks/words.js';
import { type LockOp, lockModel } from './lock.js';
import { linearize } from './search.js';

const never = Number.POSITIVE_INFINITY;
const mutex: Want[] = [{ name: 'm', mode: 'exclusive' }];
const reader: Want[] = [{ name: 'm', mode: 'shared' }];
const permits = (permits: number): Want[] => [{ name: 'permits', permits }];

const take = (agent: string, fence: number, call: number, ret: number, wants: readonly Want[] = mutex): LockOp => ({
  what: 'take',
  agent,
  grant: `${agent}${fence}`,
  wants,
  fence,
  call,
  ret,
});
const end = (grant: string, call: number, ret: number): LockOp => ({ what: 'end', agent: 'any', grant, call, ret });
const busy = (call: number, ret: number, wants: readonly Want[] = mutex): LockOp => ({
  what: 'busy',
  agent: 'x',
  wants,
  call,
  ret,
});
const wait = (call: number, ret: number, wants: readonly Want[] = mutex): LockOp => ({
  what: 'wait',
  agent: 'x',
  wants,
  call,
  ret,
});

const model = lockModel(new Map([['permits', 4]]));
const holds = (...ops: LockOp[]): boolean => linearize(ops, model, 10_000).ok;

test('an order is found for holders one after the other, and for answers that crossed', () => {
  expect(holds(take('a', 1, 0, 2), end('a1', 3, 6), take('b', 2, 1, 5), end('b2', 8, 9))).toBe(true);
  // The release was carried out before it was answered: the next one has the lock already.
  expect(holds(take('a', 1, 0, 1), end('a1', 2, 9), take('b', 2, 3, 4))).toBe(true);
  expect(holds(take('a', 1, 0, 1, reader), take('b', 2, 2, 3, reader), end('a1', 4, 5), end('b2', 4, 5))).toBe(true);
  expect(holds(take('a', 1, 0, 1, permits(3)), take('b', 2, 2, 3, permits(1)))).toBe(true);
});

test('two holders at one time are no order of anything', () => {
  expect(holds(take('a', 1, 0, 1), take('b', 2, 2, 3), end('a1', 4, 5), end('b2', 6, 7))).toBe(false);
  expect(holds(take('a', 1, 0, 1, reader), take('b', 2, 2, 3), end('a1', 4, 5))).toBe(false);
  expect(holds(take('a', 1, 0, 1, permits(3)), take('b', 2, 2, 3, permits(2)), end('a1', 4, 5))).toBe(false);
  // It was over only after the next one had its answer.
  expect(holds(take('a', 1, 0, 1), take('b', 2, 2, 3), end('a1', 3.5, 5))).toBe(false);
});

test('a fence that falls, comes twice or rises against the order of the grants is found', () => {
  expect(holds(take('a', 5, 0, 1), end('a5', 2, 3), take('b', 4, 4, 5))).toBe(false);
  expect(holds(take('a', 5, 0, 1), end('a5', 2, 3), take('b', 5, 4, 5))).toBe(false);
  // Side by side nobody can tell who was first, so the fences say it.
  expect(holds(take('a', 5, 0, 9, reader), take('b', 4, 1, 8, reader))).toBe(true);
});

test('busy is an answer only while somebody holds it or waits for it', () => {
  expect(holds(take('a', 1, 0, 1), busy(2, 3), end('a1', 4, 5))).toBe(true);
  expect(holds(take('a', 1, 0, 1), end('a1', 2, 3), busy(4, 5))).toBe(false);
  expect(holds(busy(0, 1), take('a', 1, 2, 3))).toBe(false);
  // It crossed with the taking, or with the giving back.
  expect(holds(busy(0, 3), take('a', 1, 2, 4))).toBe(true);
  expect(holds(take('a', 1, 0, 1), end('a1', 2, 5), busy(4, 6))).toBe(true);
  expect(holds(take('a', 1, 0, 1, reader), wait(2, 9), busy(3, 4, reader))).toBe(true);
  expect(holds(take('a', 1, 0, 1, reader), wait(5, 9), busy(3, 4, reader))).toBe(false);
  expect(holds(take('a', 1, 0, 1, permits(2)), busy(3, 4, permits(3)))).toBe(true);
  expect(holds(take('a', 1, 0, 1, permits(2)), busy(3, 4, permits(2)))).toBe(false);
});

test('what nobody heard the end of may have ended at any time since, but not before', () => {
  expect(holds(take('a', 1, 0, 1), end('a1', 2, never), take('b', 2, 50, 51))).toBe(true);
  expect(holds(take('a', 1, 0, 1), end('a1', 2, never), busy(50, 51))).toBe(true);
  expect(holds(take('a', 1, 0, 1), end('a1', 60, never), take('b', 2, 50, 51))).toBe(false);
});

test('a long history is ordered at once, and one that is too wide is given up and not called wrong', () => {
  const long = Array.from({ length: 500 }, (_, i) => [
    take('a', i + 1, 4 * i, 4 * i + 3),
    end(`a${i + 1}`, 4 * i + 2, 4 * i + 5),
  ]);
  const found = linearize(long.flat(), model, 10_000);
  expect(found).toMatchObject({ ok: true, undecided: false });
  expect(found.states).toBeLessThan(2000);
  const wide = Array.from({ length: 14 }, (_, i) => end(`nobody${i}`, 0, never));
  expect(
    linearize([...wide, ...wide.map((_, i) => take('a', i + 1, 0, 9, reader)), busy(10, 11, reader)], model, 50),
  ).toMatchObject({
    ok: false,
    undecided: true,
  });
});
