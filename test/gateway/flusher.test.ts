import { expect, test } from 'vitest';
import { Flusher } from '../../src/gateway/flusher.js';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('whoever has lines to write is written once in a turn, in the order in which they came', async () => {
  const flusher = new Flusher();
  const written: string[] = [];
  for (const name of ['a', 'b', 'c']) flusher.add({ flush: () => void written.push(name) });
  expect(written).toEqual([]);
  await turn();
  expect(written).toEqual(['a', 'b', 'c']);
});

test('a thousand sockets are written in turns, and what arrives in between is looked at', async () => {
  const flusher = new Flusher();
  let written = 0;
  for (let i = 0; i < 1000; i++) flusher.add({ flush: () => written++ });
  await turn();
  expect(written).toBeGreaterThan(0);
  expect(written).toBeLessThan(1000);
  flusher.add({ flush: () => written++ });
  while (written < 1001) await turn();
  flusher.add({ flush: () => written++ });
  await turn();
  expect(written).toBe(1002);
});

test('somebody who always has more to write does not keep the others from being written, or what was written in memory', async () => {
  const flusher = new Flusher();
  let written = 0;
  const busy = { flush: () => (++written < 20_000 ? flusher.add(busy) : undefined) };
  for (let i = 0; i < 300; i++) flusher.add(busy);
  let late = false;
  await turn();
  flusher.add({ flush: () => (late = true) });
  while (!late) await turn();
  expect(written).toBeLessThan(1000);
  while (written < 20_000) await turn();
});

test('one that throws keeps nobody else from being written', async () => {
  const flusher = new Flusher();
  const written: number[] = [];
  flusher.add({
    flush: () => {
      throw new Error('a bug');
    },
  });
  flusher.add({ flush: () => void written.push(1) });
  await turn();
  expect(written).toEqual([1]);
});
