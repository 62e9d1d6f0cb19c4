import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Signalbox } from '../../src/client/index.js';
import { type Any, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

type Handler = () => unknown;
interface Options {
  leaseMs: number;
  signal?: AbortSignal;
}

const recipes = [
  {
    what: 'lock',
    run: (sb: Signalbox, options: Options, handler: Handler): Promise<unknown> => sb.lock('n', options, handler),
    lost: ({ grant }: Any) => ({ kind: 'lock', name: 'n', grant }),
    ask: 'lock.acquire',
    back: { op: 'lock.release', params: {} },
  },
  {
    what: 'limit',
    run: (sb: Signalbox, options: Options, handler: Handler): Promise<unknown> =>
      sb.limit('n', { n: 1 }, options, handler),
    lost: ({ reservation }: Any) => ({ kind: 'reservation', name: 'n', reservation }),
    ask: 'limit.reserve',
    back: { op: 'limit.settle', params: { actual: { n: 0 } } },
  },
  {
    what: 'once',
    run: (sb: Signalbox, options: Options, handler: Handler): Promise<unknown> => sb.once('n', 1, options, handler),
    lost: () => ({ kind: 'once', name: 'n' }),
    ask: 'once.begin',
    back: { op: 'once.fail', params: { outcome: 'retryable' } },
  },
];

/**
 * A daemon that gives everything at once and proves nothing, and a client that has had no proof for so long that
 * it asks for one before it begins anything.
 */
async function unproven() {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 1200;
  daemon.on['lock.acquire'] = ({ params: { grant } }) => ({
    grant,
    state: 'held',
    fence: 7,
    validMs: 1200,
    epoch: 'e1',
  });
  daemon.on['limit.reserve'] = ({ params: { reservation } }) => ({ reservation, state: 'granted', fence: 7 });
  daemon.on['once.begin'] = () => ({ state: 'new', fence: 7, attempts: 1 });
  daemon.on['lease.renew'] = () => silence;
  daemon.on.ping = () => silence;
  daemon.on['lock.release'] = () => ({ state: 'released' });
  daemon.on['limit.settle'] = () => ({ remaining: {} });
  daemon.on['once.fail'] = () => ({ state: 'new' });
  const sb = await client(daemon);
  await wait(800);
  return { daemon, sb };
}

const never = (): Promise<never> => Promise.reject(new Error('the handler ran'));

test.each(recipes)('$what: a handler whose time is over before its renewal is answered does not begin', async (its) => {
  const { sb } = await unproven();
  expect(await rejection(its.run(sb, { leaseMs: 800 }, never))).toMatchObject({ name: 'Ended', reason: 'cannotRenew' });
});

test.each(recipes)('$what: what is lost before its renewal is answered does not begin', async (its) => {
  const { daemon, sb } = await unproven();
  const ended = rejection(its.run(sb, { leaseMs: 1000 }, never));
  const { params } = await daemon.asked(its.ask);
  await daemon.asked('lease.renew');
  daemon.peer.send({ op: 'lost', fence: 7, reason: 'revoked', ...its.lost(params) });
  expect(await ended).toMatchObject({ name: 'Ended', reason: 'revoked' });
});

test.each(recipes)(
  'L19: $what: what its caller gives up before its renewal is answered does not begin, and goes back unused',
  async (its) => {
    const { daemon, sb } = await unproven();
    const stop = new AbortController();
    const ended = rejection(its.run(sb, { leaseMs: 1000, signal: stop.signal }, never));
    const renewal = await daemon.asked('lease.renew');
    stop.abort(new Error('enough'));
    renewal.peer.send({ id: renewal.id, ok: { leases: [{ endsAt: '2026-01-01T00:00:00Z' }] } });
    expect(await ended).toMatchObject({ message: 'enough' });
    expect((await daemon.asked(its.back.op)).params).toMatchObject(its.back.params);
  },
);

test('a candidate that gives up before its renewal is answered does not lead', async () => {
  const { daemon, sb } = await unproven();
  const stop = new AbortController();
  let terms = 0;
  const elected = sb.elect('n', { leaseMs: 1000, signal: stop.signal }, () => void terms++);
  await daemon.asked('lease.renew');
  stop.abort(new Error('enough'));
  await elected;
  expect(terms).toBe(0);
  await daemon.asked('lock.release');
});
