import { expect, test } from 'vitest';
import type { TapEvent } from '../tap.js';
import { type Held, overlapsOf } from './held.js';
import { runLocks } from './history.js';
import { fencesOf, replayed } from './log.js';
import { capacities, drawPlan } from './plan.js';
import type { Want } from './words.js';

/** How long fresh seeds are tried. */
const seconds = Number(process.env.SIM_SECONDS ?? 10);
const faults = 12;
const historyMs = 90_000;

test(
  `fresh seeds for ${seconds} s: R1 R2 R3: what agents surely hold never overlaps, their answers have an order, fences rise, nobody is passed, nothing is left`,
  async () => {
    const until = performance.now() + seconds * 1000;
    // A history may be flushed or hurt so early that nothing in it is sure: one such judges nothing, and another follows.
    let surely = 0;
    let orders = 0;
    do {
      const seed = Math.floor(Math.random() * 1e9);
      console.log(`locks: seed ${seed}`);
      const { problems, held, ordered } = await runLocks(drawPlan(seed, { faults }));
      expect(problems, `again: npm run sim -- --locks --seed ${seed} --steps ${faults}`).toEqual([]);
      surely += held;
      orders += ordered;
    } while (performance.now() < until || surely === 0 || orders === 0);
  },
  seconds * 1000 + historyMs,
);

const held = (agent: string, from: number, to: number, ...locks: Want[]): Held => ({
  agent,
  number: '1',
  grant: `${agent}-grant`,
  fence: 1,
  locks,
  from,
  to,
});
const mutex: Want = { name: 'm', mode: 'exclusive' };
const reader: Want = { name: 'm', mode: 'shared' };

test('the judge of what was surely held finds two at one time, and no more than that', () => {
  const wrong = (...helds: Held[]): number => overlapsOf(helds, capacities).length;
  expect(wrong(held('a', 0, 10, mutex), held('b', 10, 20, mutex))).toBe(0);
  expect(wrong(held('a', 0, 10, mutex), held('b', 9.9, 20, mutex))).toBe(1);
  expect(wrong(held('a', 0, 10, reader), held('b', 5, 20, reader))).toBe(0);
  expect(wrong(held('a', 0, 10, reader), held('b', 5, 20, mutex))).toBe(1);
  const [two, three] = [
    { name: 'permits', permits: 2 },
    { name: 'permits', permits: 3 },
  ];
  expect(wrong(held('a', 0, 10, two), held('b', 5, 20, two))).toBe(0);
  expect(wrong(held('a', 0, 10, two), held('b', 5, 20, three))).toBe(1);
  const [tree, file, other] = ['path:a/**', 'path:a/b', 'path:c'].map((name) => ({ name }));
  expect(wrong(held('a', 0, 10, tree!), held('b', 5, 20, other!))).toBe(0);
  expect(wrong(held('a', 0, 10, tree!), held('b', 5, 20, file!))).toBe(1);
});

/** A log of lock events, in words: `waiting a`, `granted a 7`, `released a`. */
function logOf(...lines: string[]): TapEvent[] {
  return lines.map((line, i) => {
    const [type, agent, fence = '0', name = 'm'] = line.split(' ') as [string, string, string?, string?];
    const data = {
      lock: name,
      grant: agent,
      agent,
      session: agent,
      mode: 'exclusive',
      fence: Number(fence),
      ...(type === 'waiting' ? { endsAt: new Date(1e6).toISOString() } : {}),
    };
    const at = { epoch: 'e', offset: i + 1, at: i, by: 'd', entry: i + 1 };
    return { ...at, type: `lock.${type}`, subject: name, data, own: true, id: '', source: '' };
  });
}

test('the judge of the log finds two holders, a wait passed, an end without a beginning, a fence that falls', () => {
  const wrong = (...lines: string[]): string[] => replayed(logOf(...lines), capacities, []).problems;
  expect(wrong('granted a 1', 'waiting b', 'released a', 'granted b 2', 'released b')).toEqual([]);
  expect(wrong('granted a 1', 'granted b 2')).toHaveLength(1);
  const passed = ['granted a 1', 'waiting b', 'waiting c', 'released a', 'granted c 2'];
  expect(wrong(...passed)).toEqual([expect.stringContaining("c's c passes b's b")]);
  expect(replayed(logOf(...passed), capacities, [{ agent: 'b', from: 2, to: 3 }]).problems).toEqual([]);
  expect(wrong('released a')).toHaveLength(1);
  expect(wrong('granted a 1', 'released a', 'released a')).toHaveLength(1);
  expect(replayed(logOf('granted a 1', 'waiting b'), capacities, []).held.size).toBe(1);
  expect(fencesOf(logOf('granted a 2', 'granted b 3'))).toEqual([]);
  expect(fencesOf(logOf('granted a 3', 'granted b 3'))).toHaveLength(1);
  expect(fencesOf(logOf('granted a 3', 'granted b 2'))).toHaveLength(1);
});
