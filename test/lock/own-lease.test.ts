import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Lock } from '../../src/client/index.js';
import { connect } from '../../src/client/index.js';
import { type Any, refuse, silence } from '../client/fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from '../client/rig.js';
import { startWorld } from '../support/daemon.js';

useRig();

const aborted = ({ signal }: Lock): Promise<Any> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason)));

// The story: the end of the session reached us, our new one did not reach the daemon, and a lock with a lease of a minute
// was believed ours for that minute, although it had ended with the session.
test('L1: a lock with a lease longer than the ttl ends with its session all the same', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 400;
  daemon.on['lock.acquire'] = ({ params: { grant } }) => ({
    grant,
    state: 'held',
    fence: 7,
    validMs: 400,
    epoch: 'e1',
  });
  daemon.on['lock.release'] = () => ({ state: 'released' });
  const sb = await client(daemon);
  const ended = rejection(sb.lock('n', { leaseMs: 60_000 }, aborted));
  await daemon.asked('lock.acquire');
  daemon.on['session.open'] = () => silence;
  daemon.peer.send({ op: 'lost', kind: 'session', name: 's1', reason: 'revoked' });
  await daemon.asked(
    'session.open',
    ({ params }) => params.resume === undefined && daemon.all('session.open').length > 1,
  );
  const startedAt = performance.now();
  expect(await ended).toMatchObject({ name: 'Ended', reason: 'sessionLost' });
  expect(performance.now() - startedAt).toBeLessThan(2000);
});

// The story: a handler that blocked past its longest hold asked its signal, and no timer had run yet to abort it.
test('L7: a handler that was frozen past its longest hold finds the lock gone before its next line', async () => {
  const daemon = await fakeDaemon();
  daemon.on['lock.acquire'] = ({ params: { grant } }) => ({
    grant,
    state: 'held',
    fence: 7,
    validMs: 15_000,
    maxHoldMs: 200,
    epoch: 'e1',
  });
  daemon.on['lock.release'] = () => ({ state: 'released' });
  const sb = await client(daemon);
  const seen: unknown[] = [];
  const ended = await rejection(
    sb.lock('n', { maxHoldMs: 200 }, ({ signal }) => {
      const until = performance.now() + 250;
      while (performance.now() < until);
      seen.push(signal.aborted, signal.reason);
    }),
  );
  expect(seen).toMatchObject([true, { name: 'Ended', reason: 'maxHold' }]);
  expect(ended).toMatchObject({ name: 'Ended', reason: 'maxHold' });
});

/** A client that holds a lock with a lease of its own and nothing else, and a daemon that does not know that lock. */
async function forgotten(epoch: string) {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 600;
  daemon.on['lock.acquire'] = ({ params: { grant, reclaim } }) =>
    reclaim === undefined
      ? { grant, state: 'held', fence: 7, validMs: 600, epoch: 'e1' }
      : { grant, state: 'held', fence: 9, validMs: 600, epoch };
  daemon.on['lock.release'] = () => ({ state: 'released' });
  daemon.on['lease.renew'] = ({ params: { leases } }) => ({
    leases: leases.map(({ fence }: Any) => (fence === 9 ? { endsAt: '2026-01-01T00:00:00Z' } : refuse('NOT_FOUND'))),
  });
  daemon.on.ping = () => ({ serverAt: '2026-01-01T00:00:00Z', epoch });
  return { daemon, sb: await client(daemon) };
}

test('L15: a lock that the store has lost is claimed back, though it has a lease of its own and is all we hold', async () => {
  const { daemon, sb } = await forgotten('e2');
  const fences = await sb.lock('n', { leaseMs: 60_000 }, async (lock) => {
    const first = lock.fence;
    await daemon.asked('lock.acquire', ({ params }) => params.reclaim === 7);
    await daemon.asked('lease.renew', ({ params }) => params.leases[0].fence === 9);
    expect(lock.signal.aborted).toBe(false);
    return [first, lock.fence];
  });
  expect(fences).toEqual([7, 9]);
});

test('a lock that the daemon does not know in the epoch it was given in has lapsed', async () => {
  const { daemon, sb } = await forgotten('e1');
  expect(await rejection(sb.lock('n', { leaseMs: 60_000 }, aborted))).toMatchObject({ reason: 'leaseLapsed' });
  expect(daemon.all('lock.acquire')).toHaveLength(1);
});

// The story: Redis came back without its last second, the session was there and the lock was not, and nobody asked which
// epoch it was: a holder that had the whole grace to claim its lock back gave it up.
test('L15: Redis comes back without the grant and with its session: a lock with a lease of its own is claimed back', async () => {
  const world = await startWorld();
  const sb = await connect({ url: world.daemon.url, agent: 'a', ttlMs: 10_000, backoff: { baseMs: 5, capMs: 50 } });
  try {
    const redis = world.redis.client();
    await redis.save();
    redis.disconnect();
    const seen = await sb.lock('n', { leaseMs: 6000 }, async (lock) => {
      const first = lock.fence;
      await world.redis.kill();
      await world.redis.restart();
      while (lock.fence === first && !lock.signal.aborted) await sleep(10);
      expect(lock.signal.aborted).toBe(false);
      return [first, lock.fence];
    });
    expect(seen[1]).toBeGreaterThan(seen[0]!);
  } finally {
    await sb.close({ limitMs: 0 });
    await world.stop();
  }
});
