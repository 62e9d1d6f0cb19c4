import { afterAll, beforeAll, expect, test } from 'vitest';
import { startDaemon, type TestDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { type Any, fresh, limitOf, pushesOf, reserve, settle, usage, type Wire } from './support.js';

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

/** A limit with a share that the daemon knows; and its next call to Redis that names `marker`, carried out without a reply. */
async function shared(wire: Wire): Promise<string> {
  const dimensions = { n: { amount: 10, perMs: minute }, concurrency: { amount: 4 } };
  const name = await limitOf(wire, 'window', dimensions, { whenDown: { share: 0.5 } });
  await settle(wire, await reserve(wire, name, { n: 1 }), { n: 0 });
  await wire.call('limit.get', { name });
  return name;
}

test('what is settled while the reply to its adoption is lost is settled in Redis too', async () => {
  const wire = await daemon.session({ ttlMs: 60_000 });
  const name = await shared(wire);
  await away(wire);
  const held = await reserve(wire, name, { n: 3, concurrency: 2 }, { reservation: fresh('adopted') });
  expect(held.degraded).toBe(true);
  const watcher = await other.wire();
  // Until Redis has it and the daemon does not know: the link may end with a reply that was before it.
  do {
    const swallowed = proxy.swallowReply(held.reservation);
    proxy.heal();
    await swallowed;
    await away(wire);
  } while ((await usage(watcher, name)).concurrency.reserved !== 2);
  await settle(wire, held, { n: 1 });
  await back(wire);
  await until(async () => (await usage(watcher, name)).concurrency.reserved === 0);
  expect((await usage(watcher, name)).n).toEqual({ amount: 10, used: 1, reserved: 0, remaining: 9 });
  await wire.call('session.close', {});
});

test('a reservation that Redis made and nobody heard of goes on under the fence its holder was given instead', async () => {
  const wire = await daemon.session({ ttlMs: 60_000 });
  const name = await shared(wire);
  const reservation = fresh('unheard');
  const swallowed = proxy.swallowReply(reservation);
  const [held] = await Promise.all([
    reserve(wire, name, { n: 3, concurrency: 2 }, { reservation, leaseMs: minute }),
    swallowed,
  ]);
  expect(held).toMatchObject({ state: 'granted', degraded: true });
  await back(wire);
  const watcher = await other.wire();
  await until(async () => {
    const { leases } = await watcher.call('lease.list', { session: wire.opened.session, kind: 'reservation' });
    return leases.some(({ fence }: Any) => fence === held.fence);
  });
  expect((await usage(watcher, name)).n).toMatchObject({ reserved: 3, remaining: 7 });
  const { leases } = await wire.call('lease.renew', {
    leases: [{ lease: `reservation:${reservation}`, fence: held.fence }],
  });
  expect(leases[0].endsAt).toBeDefined();
  await settle(wire, held);
  expect((await usage(watcher, name)).concurrency.reserved).toBe(0);
  await wire.call('session.close', {});
});

test('a wait that Redis began and nobody heard of is over when its ask was granted instead', async () => {
  const [wire, elsewhere] = await Promise.all([daemon.session({ ttlMs: 60_000 }), other.session({ ttlMs: 60_000 })]);
  const name = await shared(wire);
  const full = await reserve(elsewhere, name, { concurrency: 4 });
  const reservation = fresh('waits');
  const swallowed = proxy.swallowReply(reservation);
  const [held] = await Promise.all([
    reserve(wire, name, { concurrency: 2 }, { reservation, waitMs: minute }),
    swallowed,
  ]);
  expect(held).toMatchObject({ state: 'granted', degraded: true });
  await back(wire);
  await until(async () => (await usage(elsewhere, name)).concurrency.reserved === 6);
  expect(await elsewhere.call('limit.get', { name })).toMatchObject({ waiting: 0 });
  // What comes free is nobody's turn.
  await settle(elsewhere, full);
  await wire.call('ping');
  expect((await usage(elsewhere, name)).concurrency.reserved).toBe(2);
  await settle(wire, held);
  expect((await usage(elsewhere, name)).concurrency.reserved).toBe(0);
  expect(pushesOf(wire, held)).toEqual([]);
  await Promise.all([wire, elsewhere].map((each) => each.call('session.close', {})));
});

test('fences that a daemon gives by itself are above all that it has seen, however far its clock is behind', async () => {
  const wire = await daemon.session({ ttlMs: 60_000 });
  const name = await shared(wire);
  const client = redis.client();
  // As Redis leaves it when its clock is ten seconds ahead of the daemon's.
  await client.hset('sb:{default}:meta', 'fence', String((Date.now() + 10_000) * 1000));
  const before = await reserve(wire, name, { n: 1 });
  await away(wire);
  const held = await reserve(wire, name, { n: 1 });
  expect(held.degraded).toBe(true);
  expect(held.fence).toBeGreaterThan(before.fence);
  await back(wire);
  expect((await reserve(wire, name, { n: 1 })).fence).toBeGreaterThan(held.fence);
  await wire.call('session.close', {});
  client.disconnect();
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
