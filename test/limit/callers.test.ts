import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Any, granted, limitOf, queueUp, refused, reserve, settle, usage, useWorld } from './support.js';

const { daemon, current } = useWorld();
const slots = { concurrency: { amount: 1 } };
const one = { concurrency: 1 };

test('[L12] what one caller asks for evicts nobody: leases and amounts of others never depend on it', async () => {
  const [a, b, c] = await Promise.all(['a', 'b', 'c'].map((agent) => daemon().session({ agent, ttlMs: 60_000 })));
  const name = await limitOf(a!, 'window', slots);
  const held = await reserve(a!, name, one, { leaseMs: 60_000 });
  const ends = async (): Promise<number> =>
    Date.parse((await a!.call('lease.list', { kind: 'reservation' })).leases[0].endsAt);
  const before = await ends();
  expect(await refused(b!, name, one, { leaseMs: 50 })).toMatchObject({ code: 'LIMITED' });
  const waits = await queueUp(b!, name, one, { leaseMs: 50 });
  // Longer than the other's lease.
  await sleep(120);
  // As exact as the lease clock, which a clock that is set back moves by as much.
  expect(Math.abs((await ends()) - before)).toBeLessThan(1000);
  expect(await refused(c!, name, { concurrency: 5 })).toMatchObject({ code: 'NEVER_FITS', details: { most: 1 } });
  expect(
    await c!.refused('limit.define', { name, kind: 'window', dimensions: { concurrency: { amount: 5 } } }),
  ).toMatchObject({ code: 'CONFLICT' });
  expect((await usage(c!, name)).concurrency).toMatchObject({ amount: 1, reserved: 1 });
  await settle(a!, held);
  await granted(b!, waits);
  await settle(b!, waits).catch(() => undefined);
});

test('[L16] fifty waiters are served in their order although the pub/sub connections of Redis are killed meanwhile', async () => {
  const holder = await daemon().session({ ttlMs: 60_000 });
  const name = await limitOf(holder, 'window', slots);
  const held = await reserve(holder, name, one);
  const agents = await Promise.all(
    Array.from({ length: 50 }, (_, i) => daemon().session({ agent: `w${i}`, ttlMs: 60_000 })),
  );
  const waits: Any[] = [];
  for (const wire of agents) waits.push(await queueUp(wire, name, one));
  expect(waits.map(({ place }) => place)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
  const client = current().redis.client();
  const kill = (): void => void client.call('CLIENT', 'KILL', 'TYPE', 'pubsub').catch(() => undefined);
  const killer = setInterval(kill, 100);
  const started = performance.now();
  const order: number[] = [];
  try {
    await settle(holder, held);
    await Promise.all(
      agents.map(async (wire, i) => {
        await granted(wire, waits[i]);
        order.push(i);
        await sleep(10);
        await settle(wire, waits[i]);
      }),
    );
  } finally {
    clearInterval(killer);
    client.disconnect();
  }
  expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i));
  // 50 × 10 ms of holding; nobody waited for a lease or a sweep.
  expect(performance.now() - started).toBeLessThan(2000);
});
