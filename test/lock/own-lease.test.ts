import { expect, test } from 'vitest';
import type { Lock } from '../../src/client/index.js';
import { type Any, silence } from '../client/fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from '../client/rig.js';

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
