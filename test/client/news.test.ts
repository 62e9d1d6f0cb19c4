import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Signalbox } from '../../src/client/index.js';
import { type Any, event, refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

const held = (grant: string): Any => ({ grant, state: 'held', fence: 7, validMs: 15_000, epoch: 'e1' });

// The story: a lock was broken right behind its grant. The line came before the caller had its answer, nobody knew the
// grant yet, and the handler ran on with a lock that another one held.
test('a lock that is lost in the very message that grants it is told to its handler', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  daemon.on['lock.acquire'] = ({ peer, id, params }) => {
    const { grant, name } = params;
    peer.send({ id, ok: held(grant) }, { op: 'lost', kind: 'lock', name, grant, fence: 7, reason: 'broken' });
    return silence;
  };
  daemon.on['lock.release'] = () => ({});
  const run = sb.lock(
    'deploy',
    ({ signal }) =>
      new Promise((_, reject) => {
        if (signal.aborted) reject(signal.reason);
        else signal.addEventListener('abort', () => reject(signal.reason));
      }),
  );
  expect(await rejection(run)).toMatchObject({ reason: 'broken' });
});

// The story: the answer to a resume said that a wait goes on, and in the same message it was granted. The holdings were
// read after the grant, did not know it, and the lock was given up as revoked.
test('a wait that is granted in the very message that resumes its session is granted', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  daemon.on['lock.acquire'] = ({ params }) => ({ grant: params.grant, state: 'waiting', place: 1 });
  daemon.on['lock.release'] = () => ({});
  const run = sb.lock('deploy', ({ fence }) => fence);
  const { params } = await daemon.asked('lock.acquire');
  daemon.on['session.open'] = ({ peer, id, params: { resume } }) => {
    const waiting = {
      lease: `lock:${params.grant}`,
      kind: 'lock',
      name: params.grant,
      state: 'waiting',
      locks: ['deploy'],
    };
    const opened = { ...resume, ttlMs: 15_000, graceMs: 5000, resumed: true, position: 'e1:100', holdings: [waiting] };
    peer.send({ id, ok: opened }, { op: 'granted', ...held(params.grant) });
    return silence;
  };
  daemon.peer.cut();
  expect(await run).toBe(7);
});

// The story: news waited for its turn, the answer to a subscription waited behind it, and the events behind that did not:
// they came to a subscription that nobody had told yet where it stands, and were lost without a gap.
test('what follows news that waits comes behind it, events of a new subscription too', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  daemon.on['feed.subscribe'] = ({ peer, id }) => {
    peer.send(
      { id: 999_999, ok: {} },
      { op: 'cancel', task: 'nobody', fence: 1 },
      { id, ok: { subscription: 's1', from: 'e1:100', head: 'e1:102', missed: 0 } },
      event(101),
      event(102),
    );
    return silence;
  };
  const got: unknown[] = [];
  await sb.subscribe({ types: ['>'] }, (delivery) => got.push(delivery.event?.id));
  await sb.ping();
  expect(got).toEqual(['e1:101', 'e1:102']);
});

const waits = [
  {
    what: 'lock',
    ask: 'lock.acquire',
    run: (sb: Signalbox, handler: Handler) => sb.lock('n', handler),
    granted: ({ grant }: Any) => ({ ...held(grant), op: 'granted' }),
    got: ({ grant }: Any) => held(grant),
  },
  {
    what: 'limit',
    ask: 'limit.reserve',
    run: (sb: Signalbox, handler: Handler) => sb.limit('n', { concurrency: 1 }, handler),
    granted: ({ reservation }: Any) => ({ op: 'granted', name: 'n', reservation, fence: 7, validMs: 15_000 }),
    got: ({ reservation }: Any) => ({ reservation, state: 'granted', fence: 7, validMs: 15_000 }),
  },
];
type Handler = (held: { readonly signal: AbortSignal }) => unknown;

async function waiting({ ask, run }: (typeof waits)[number], handler: Handler) {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  daemon.on[ask] = ({ params }) => ({ ...params, state: 'waiting', place: 1 });
  daemon.on['lock.release'] = () => ({});
  daemon.on['limit.settle'] = () => ({});
  const ran = run(sb, handler);
  const { params, peer } = await daemon.asked(ask);
  await sb.ping();
  return { daemon, ran, params, peer };
}

// The story: a wait was granted and what it got was lost again while the agent stood still. Both lines came in one message,
// the second one before anybody knew what the first had brought, and the handler ran with what another one held.
test.each(waits)('a $what whose wait is granted and lost in one message is told to its handler', async (its) => {
  const { ran, params, peer } = await waiting(its, ({ signal }) => signal.aborted || once(signal, 'abort'));
  const name = params.grant ?? 'n';
  peer.send(its.granted(params), {
    op: 'lost',
    kind: its.what.replace('limit', 'reservation'),
    ...params,
    name,
    fence: 7,
    reason: 'broken',
  });
  await ran.catch((error) => expect(error).toMatchObject({ reason: 'broken' }));
});

// The story: the end of a session overtook the answer to what was asked under it. The proof of the next session was taken for
// one of what only the last one had had.
test.each(waits)('a $what that was granted to the session before is not begun under the next one', async (its) => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const asked: string[] = [];
  daemon.on[its.ask] = ({ peer, id, params }) => {
    asked.push(params.grant ?? params.reservation);
    if (asked.length > 1) return its.got(params);
    peer.send({ op: 'lost', kind: 'session', name: 's1', reason: 'expired' }, { id, ok: its.got(params) });
    return silence;
  };
  daemon.on['lock.release'] = () => ({});
  daemon.on['limit.settle'] = () => ({});
  await its.run(sb, () => 'ran');
  expect(new Set(asked).size).toBe(2);
});

// The story: the same, but the request met the end of its session and was sent again under the next one, where it had to
// wait. The news of the end was taken for one of that wait; another was begun, and the first was granted to nobody.
test.each(waits)(
  'a $what that waits under the next session, after it met the end of the one before, is waited for',
  async (its) => {
    const daemon = await fakeDaemon();
    const sb = await client(daemon);
    const asked: string[] = [];
    daemon.on[its.ask] = ({ peer, id, params }) => {
      asked.push(params.grant ?? params.reservation);
      if (asked.length === 2) return { ...params, state: 'waiting', place: 1 };
      if (asked.length > 2) return its.got(params);
      const { error } = refuse('SESSION_LOST');
      peer.send({ op: 'lost', kind: 'session', name: 's1', reason: 'revoked' }, { id, error });
      return silence;
    };
    daemon.on['lock.release'] = () => ({});
    daemon.on['limit.settle'] = () => ({});
    await its.run(sb, () => 'ran');
    expect(asked).toHaveLength(3);
    expect(new Set(asked).size).toBe(1);
  },
);

test('a once key that was begun by the session before is not acted under', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  daemon.on['once.begin'] = ({ peer, id }) => {
    const lost = { op: 'lost', kind: 'session', name: 's1', reason: 'expired' };
    peer.send(lost, { id, ok: { state: 'new', fence: 7, attempts: 1 } });
    return silence;
  };
  daemon.on['once.finish'] = () => ({});
  let ran = false;
  const run = sb.once('pay', {}, () => {
    ran = true;
  });
  expect(await rejection(run)).toMatchObject({ reason: 'sessionLost' });
  expect(ran).toBe(false);
});

// The story: a grant waited for a proof of its session, the store was lost with that session, and the lock was claimed back.
// It was held from then on by a handler that never began.
test('a lock that is claimed back before its handler has begun begins', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 1000;
  const sb = await client(daemon);
  daemon.on.ping = () => silence;
  daemon.on['lock.acquire'] = ({ params }) => ({ grant: params.grant, state: 'waiting', place: 1 });
  daemon.on['lock.release'] = () => ({});
  const ran = sb.lock('deploy', ({ fence }) => fence);
  const { params, peer } = await daemon.asked('lock.acquire');
  // Until the session was proved too long ago for a grant to be acted on at once.
  await setTimeout(600);
  daemon.position = 'e2:1';
  daemon.on['lock.acquire'] = ({ params: { grant } }) => ({ ...held(grant), fence: 9, epoch: 'e2' });
  peer.send({ op: 'granted', ...held(params.grant) }, { op: 'lost', kind: 'session', name: 's1', reason: 'expired' });
  expect((await daemon.asked('lock.acquire')).params).toMatchObject({ grant: params.grant, reclaim: 7 });
  daemon.on.ping = () => ({ epoch: 'e2' });
  expect(await ran).toBe(9);
});
