import { afterAll, beforeAll, expect, test } from 'vitest';
import { startDaemon, type TestDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { type Any, fresh, limitOf, reserve, settle, usage, type Wire } from './support.js';

/** A daemon whose link to Redis can be taken away, and one that keeps its own. */
let redis: TestRedis;
let proxy: FaultProxy;
let daemon: TestDaemon;
let other: TestDaemon;
beforeAll(async () => {
  redis = await startRedis();
  proxy = await startProxy(redis.path);
  daemon = await startDaemon(`redis://127.0.0.1:${proxy.port}`);
  other = await startDaemon(redis.path);
});
afterAll(async () => {
  await Promise.all([daemon?.stop(), other?.stop()]);
  await proxy?.close();
  await redis?.stop();
});

const minute = 60_000;

async function away(wire: Wire): Promise<void> {
  proxy.refuse();
  proxy.cut();
  await until(
    async () => (await wire.call('limit.get', { name: 'any' }).catch((error) => error)).code === 'UNAVAILABLE',
  );
}
async function back(wire: Wire): Promise<void> {
  proxy.heal();
  await until(async () => (await wire.call('limit.get', { name: 'any' }).catch((error) => error)).code === 'NOT_FOUND');
}

test('a limit is closed while Redis is away, unless it says otherwise; and open again after', async () => {
  const wire = await daemon.session({ ttlMs: 60_000 });
  const name = await limitOf(wire, 'window', { n: { amount: 10, perMs: minute } });
  const held = await reserve(wire, name, { n: 1 });
  await away(wire);
  expect(await wire.refused('limit.reserve', { name, cost: { n: 1 } })).toMatchObject({
    code: 'UNAVAILABLE',
    retry: true,
  });
  expect((await wire.refused('limit.settle', { reservation: held.reservation })).code).toBe('UNAVAILABLE');
  await back(wire);
  await settle(wire, held);
  expect((await usage(wire, name)).n).toMatchObject({ used: 1, remaining: 9 });
});

test('with a share each daemon grants that much by itself, and Redis is charged with it when it is back', async () => {
  const wire = await daemon.session({ ttlMs: 60_000 });
  const watcher = await other.session();
  const dimensions = { n: { amount: 10, perMs: minute }, concurrency: { amount: 4 } };
  const name = await limitOf(wire, 'window', dimensions, { whenDown: { share: 0.5 } });
  const before = await reserve(wire, name, { n: 1 });
  // The daemon has asked what the limit is by the time it answers the next.
  await settle(wire, await reserve(wire, name, { n: 1 }), { n: 0 });
  await away(wire);
  const first = await reserve(wire, name, { n: 2, concurrency: 1 });
  expect(first).toMatchObject({ state: 'granted', degraded: true, remaining: { n: 3, concurrency: 1 } });
  expect(first.fence).toBeGreaterThan(before.fence);
  expect(await reserve(wire, name, { n: 2, concurrency: 1 }, { reservation: first.reservation })).toEqual(first);
  const second = await reserve(wire, name, { n: 3, concurrency: 1 });
  for (const cost of [{ n: 1 }, { concurrency: 1 }])
    expect(await wire.refused('limit.reserve', { name, cost })).toMatchObject({ code: 'LIMITED', afterMs: 1000 });
  expect((await wire.refused('limit.reserve', { name, cost: { x: 1 } })).code).toBe('INVALID');
  await settle(wire, second, { n: 1 });
  // What was granted in Redis is not settled here.
  expect((await wire.refused('limit.settle', { reservation: before.reservation })).code).toBe('UNAVAILABLE');
  await back(wire);
  await until(async () => (await usage(watcher, name)).concurrency.reserved === 1);
  // 1 of before, 2 still held, 1 that came of 3.
  expect((await usage(watcher, name)).n).toEqual({ amount: 10, used: 1, reserved: 3, remaining: 6 });
  const { leases } = await watcher.call('lease.list', { session: wire.opened.session, kind: 'reservation' });
  expect(leases.map(({ lease, fence }: Any) => [lease, fence])).toContainEqual([
    `reservation:${first.reservation}`,
    first.fence,
  ]);
  await settle(wire, first, { n: 1 });
  await settle(wire, before);
  expect(await usage(watcher, name)).toMatchObject({ n: { used: 3, reserved: 0 }, concurrency: { reserved: 0 } });
  const later = await reserve(wire, name, { n: 1 });
  expect(later.fence).toBeGreaterThan(second.fence);
});

test('what was granted meanwhile is owed, even if others have used the limit up; a new definition is heard of', async () => {
  const [wire, elsewhere] = await Promise.all([daemon.session({ ttlMs: 60_000 }), other.session()]);
  const dimensions = { n: { amount: 10, perMs: minute } };
  const name = await limitOf(wire, 'window', dimensions);
  await settle(wire, await reserve(wire, name, { n: 1 }), { n: 0 });
  await elsewhere.call('limit.define', { name, kind: 'window', dimensions, whenDown: { share: 1 }, change: true });
  await until(async () => (await wire.call('limit.get', { name })).whenDown !== 'closed');
  const told = await daemon.wire();
  await told.call('feed.subscribe', { types: ['limit.defined'], from: 'all' });
  await told.next((line) => line.event?.data.limit === name && line.event.data.definition.whenDown !== 'closed');
  await away(wire);
  await reserve(elsewhere, name, { n: 10 });
  await reserve(wire, name, { n: 6 }, { reservation: fresh('owed') });
  await back(wire);
  await until(async () => (await usage(elsewhere, name)).n.remaining === -6);
  await wire.call('session.close', {});
});
