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
