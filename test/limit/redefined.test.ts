import { expect, test } from 'vitest';
import { type Any, granted, limitOf, queueUp, refused, reserve, settle, usage, useWorld } from './support.js';

const { daemon } = useWorld();
const second = 1000;
const minute = 60_000;

// The story: a definition that was changed and changed back had forgotten who held what. Each settle after it gave one slot
// more than there was, for ever.
test('[L22] a dimension that is left out and defined again still counts what is held of it', async () => {
  const wire = await daemon().session();
  const requests = { amount: 10, perMs: minute };
  const name = await limitOf(wire, 'window', { concurrency: { amount: 2 }, requests });
  const define = (dimensions: Any): Promise<Any> =>
    wire.call('limit.define', { name, kind: 'window', dimensions, change: true });
  const [first, other] = [
    await reserve(wire, name, { concurrency: 1, requests: 4 }),
    await reserve(wire, name, { concurrency: 1, requests: 1 }),
  ];
  await define({ tokens: { amount: 5, perMs: minute } });
  await settle(wire, other);
  await define({ concurrency: { amount: 2 }, requests });
  expect((await usage(wire, name)).concurrency).toEqual({ amount: 2, used: 0, reserved: 1, remaining: 1 });
  expect((await usage(wire, name)).requests).toMatchObject({ reserved: 4, remaining: 5 });
  await settle(wire, first, { requests: 3 });
  expect((await usage(wire, name)).concurrency).toEqual({ amount: 2, used: 0, reserved: 0, remaining: 2 });
  expect((await usage(wire, name)).requests).toMatchObject({ reserved: 0, remaining: 6 });
  const held = await reserve(wire, name, { concurrency: 2 });
  expect((await refused(wire, name, { concurrency: 1 })).code).toBe('LIMITED');
  await settle(wire, held);
});

test('a call that has reserved what was defined away since is settled all the same', async () => {
  const wire = await daemon().session();
  const name = await limitOf(wire, 'window', { concurrency: { amount: 1 }, tokens: { amount: 100, perMs: minute } });
  const held = await reserve(wire, name, { concurrency: 1, tokens: 50 });
  const waits = await queueUp(wire, name, { concurrency: 1 });
  const dimensions = { concurrency: { amount: 1 } };
  await wire.call('limit.define', { name, kind: 'window', dimensions, change: true });
  expect(await settle(wire, held, { tokens: 70 })).toEqual({ remaining: { concurrency: 1 } });
  await granted(wire, waits);
  await settle(wire, waits);
});

test('made faster, a bucket is given nothing for the part of a unit that was under way', async () => {
  const wire = await daemon().session();
  const size = 1_000_000;
  const name = await limitOf(wire, 'bucket', { requests: { amount: size, perMs: 31_622_400_000 } });
  await settle(wire, await reserve(wire, name, { requests: size }));
  const start = await wire.call('ping');
  while ((await wire.call('ping')).serverAt <= start.serverAt);
  // A few milliseconds: the ten-thousandth part of a unit by the old rate, and thousands of units if its measure is not.
  const dimensions = { requests: { amount: 1, perMs: 60 * second, burst: size } };
  await wire.call('limit.define', { name, kind: 'bucket', dimensions, change: true });
  expect((await usage(wire, name)).requests.remaining).toBe(0);
});

test('what a bucket takes longer for than there is time is told as the longest time there is', async () => {
  const wire = await daemon().session();
  const most = 1_000_000_000_000_000;
  const name = await limitOf(wire, 'bucket', { requests: { amount: 1, perMs: 31_622_400_000, burst: most } });
  const held = await reserve(wire, name, { requests: most });
  expect(held.resetMs).toBe(9e15);
  expect((await refused(wire, name, { requests: 100_000 })).afterMs).toBe(31_622_400_000);
  expect((await refused(wire, name, { requests: most })).afterMs).toBeUndefined();
  await wire.call('feed.subscribe', { types: ['limit.waiting'] });
  const waits = await queueUp(wire, name, { requests: 10_000_000 });
  const told = await wire.next((line) => line.op === 'event' && line.event.data.reservation === waits.reservation);
  expect(told.event.data).not.toHaveProperty('resumesAt');
  await settle(wire, waits);
  await settle(wire, held);
});
