import { map, from as rxFrom, take, toArray } from 'rxjs';
import { expect, test } from 'vitest';
import type { Delivery, Signalbox } from '../../src/client/index.js';
import { deferred, event, type FakeDaemon, pushed, refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

const offsets = (deliveries: readonly Delivery[]): unknown[] =>
  deliveries.map(({ event, gap }) => (event ? Number(event.id.split(':')[1]) : gap));

async function watching(daemon: FakeDaemon, types = ['>']): Promise<{ sb: Signalbox; got: Delivery[] }> {
  const sb = await client(daemon);
  const got: Delivery[] = [];
  await sb.subscribe({ types }, (delivery) => got.push(delivery));
  return { sb, got };
}

test('a subscription delivers what matches its types and where, each with its position', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const tasks: Delivery[] = [];
  const notes: Delivery[] = [];
  await sb.subscribe({ types: ['task.*'], where: { queue: 'a' } }, (delivery) => tasks.push(delivery));
  await sb.subscribe({ types: ['note.>'], from: 'new' }, (delivery) => notes.push(delivery));
  expect(daemon.all('feed.subscribe').map(({ params }) => params)).toEqual([
    { types: ['task.*'], where: { queue: 'a' } },
    { types: ['note.>'], from: 'new' },
  ]);
  daemon.peer.send(
    event(101, 'task.ready', { queue: 'a' }),
    event(102, 'task.ready', { queue: 'b' }),
    event(103, 'note.a.b'),
    event(104, 'other.x'),
  );
  await sb.ping();
  expect(offsets(tasks)).toEqual([101]);
  expect(tasks[0]).toMatchObject({
    offset: 101,
    position: 'e1:101',
    event: { type: 'task.ready', data: { queue: 'a' } },
  });
  expect(offsets(notes)).toEqual([103]);
  expect(sb.position).toBe('e1:104');
});

test('events right behind the reply, in the same message, are not missed', async () => {
  const daemon = await fakeDaemon();
  daemon.on['feed.subscribe'] = ({ peer, id }) => {
    peer.send({ id, ok: { subscription: 's', from: 'e1:100', head: 'e1:101', missed: 0 } }, event(101));
    return silence;
  };
  const { sb, got } = await watching(daemon);
  await sb.ping();
  expect(offsets(got)).toEqual([101]);
});

test('after a cut all subscriptions are restored in one message, from the same position', async () => {
  const daemon = await fakeDaemon();
  const { sb, got } = await watching(daemon, ['note.*']);
  const others = await sb.subscribe({ types: ['x.*'], where: { queue: 'q' }, onGap: 'error' });
  daemon.peer.send(event(101), event(102));
  await sb.ping();
  daemon.peer.cut();
  const [one, two] = [
    await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 1),
    await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 1),
  ];
  expect(one.params).toEqual({ types: ['note.*'], from: 'e1:102', onGap: 'skip' });
  expect(two.params).toEqual({ types: ['x.*'], where: { queue: 'q' }, from: 'e1:102', onGap: 'error' });
  expect(one.message).toBe(two.message);
  daemon.peer.send(event(103));
  await sb.ping();
  expect(offsets(got)).toEqual([101, 102, 103]);
  await others.close();
});

test('as many subscriptions as a connection may have still leave in one message, beside whatever else is restored', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const gate = deferred();
  const worker = sb.work('q', { leaseMs: 60_000 }, () => gate.promise);
  await worker.ready;
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1, { leaseMs: 60_000 })] });
  await Promise.all(Array.from({ length: 64 }, (_, i) => sb.subscribe({ types: [`t${i}.>`] }, () => {})));
  daemon.holdings = [{ lease: 'task:t1', kind: 'task', name: 't1', state: 'held', fence: 1 }];
  daemon.peer.cut();
  await daemon.connection(1);
  await sb.ping();
  const restored = daemon.all('feed.subscribe').filter(({ peer }) => peer.number === 1);
  expect(restored).toHaveLength(64);
  expect(new Set(restored.map(({ message }) => message)).size).toBe(1);
  expect(daemon.all('lease.renew').some(({ peer }) => peer.number === 1)).toBe(true);
  gate.resolve();
});

test('position and heartbeat move the place to resume from; a new epoch is taken over', async () => {
  const daemon = await fakeDaemon();
  const { sb, got } = await watching(daemon);
  daemon.peer.send({ op: 'position', position: 'e1:500' });
  await sb.ping();
  expect(sb.position).toBe('e1:500');
  daemon.peer.send({ op: 'heartbeat', at: 'now', position: 'e1:510', redis: 'up' });
  await sb.ping();
  expect(sb.position).toBe('e1:510');
  daemon.peer.send({ op: 'position', position: 'e2:0' }, event(1));
  await sb.ping();
  expect(sb.position).toBe('e2:1');
  daemon.peer.cut();
  expect((await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 1)).params.from).toBe('e2:1');
  expect(got.map(({ position }) => position)).toEqual(['e2:1']);
});

test('an event that was received already is not delivered again', async () => {
  const daemon = await fakeDaemon();
  const { sb, got } = await watching(daemon);
  daemon.peer.send(event(101), event(102), event(101), event(102), event(103));
  await sb.ping();
  expect(offsets(got)).toEqual([101, 102, 103]);
});

test('a gap stands in its place, for every subscription', async () => {
  const daemon = await fakeDaemon();
  const { sb, got } = await watching(daemon);
  const gap = { from: 'e1:101', to: 'e1:150', lost: 49, reason: 'trimmed' };
  daemon.peer.send(event(101), { op: 'gap', ...gap }, event(151));
  await sb.ping();
  expect(offsets(got)).toEqual([101, gap, 151]);
  expect(got[1]?.position).toBe('e1:150');
});

test.each([true, false])(
  'a resume that had to skip is told as a gap, once (the daemon pushes one: %s)',
  async (isPushed) => {
    const daemon = await fakeDaemon();
    const { sb, got } = await watching(daemon);
    daemon.peer.send(event(101));
    await sb.ping();
    daemon.on['feed.subscribe'] = () => ({ subscription: 's9', from: 'e1:200', head: 'e1:300', missed: 100 });
    daemon.peer.cut();
    await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 1);
    await sb.ping();
    const gap = { from: 'e1:101', to: 'e1:200', lost: 99, reason: 'trimmed' };
    daemon.peer.send(...(isPushed ? [{ op: 'gap', ...gap }] : []), event(201));
    await sb.ping();
    expect(offsets(got)).toEqual([101, gap, 201]);
  },
);

test('a loss that was answered but not told yet is not forgotten over a cut and the next loss', async () => {
  const daemon = await fakeDaemon();
  const { sb, got } = await watching(daemon);
  daemon.peer.send(event(101));
  await sb.ping();
  let tail = 150;
  daemon.on['feed.subscribe'] = () => ({ subscription: 's', from: `e1:${tail}`, head: 'e1:300', missed: 0 });
  daemon.peer.cut();
  await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 1);
  await sb.ping();
  tail = 200;
  daemon.peer.cut();
  await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 2);
  daemon.peer.send(event(201));
  await sb.ping();
  expect(offsets(got)).toEqual([101, { from: 'e1:101', to: 'e1:200', lost: 99, reason: 'trimmed' }, 201]);
});

test('a subscription that is answered after its caller gave up is ended', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { timeoutMs: 100 });
  const answer = deferred<object>();
  daemon.on['feed.subscribe'] = () => answer.promise;
  expect(await rejection(sb.subscribe({ types: ['>'] }, () => {}))).toMatchObject({ code: 'TIMEOUT' });
  answer.resolve({ subscription: 'late', from: 'e1:100', head: 'e1:100', missed: 0 });
  expect((await daemon.asked('feed.unsubscribe')).params).toEqual({ subscription: 'late' });
});

test('onGap error: the refusal of a first position is for the caller, that of a resume ends the subscription', async () => {
  const daemon = await fakeDaemon();
  const lost = refuse('POSITION_LOST', { details: { reason: 'trimmed', tail: 'e1:50', head: 'e1:100', lost: 45 } });
  daemon.on['feed.subscribe'] = () => lost;
  const sb = await client(daemon);
  expect(await rejection(sb.subscribe({ types: ['>'], from: 'e1:5' }, () => {}))).toMatchObject({
    code: 'POSITION_LOST',
    details: { lost: 45 },
  });
  delete daemon.on['feed.subscribe'];
  const subscription = await sb.subscribe({ types: ['>'], onGap: 'error' });
  daemon.on['feed.subscribe'] = () => lost;
  daemon.peer.cut();
  expect(await rejection(subscription[Symbol.asyncIterator]().next())).toMatchObject({ code: 'POSITION_LOST' });
});

test('a cursor that cannot be restored for the moment is tried again on a new connection', async () => {
  const daemon = await fakeDaemon();
  const delays: number[] = [];
  const sb = await client(daemon, {
    backoff: { baseMs: 1, capMs: 50 },
    onStatus: (status) => status.state === 'reconnecting' && delays.push(status.delayMs),
  });
  const got: Delivery[] = [];
  await sb.subscribe({ types: ['>'] }, (delivery) => got.push(delivery));
  daemon.on['feed.subscribe'] = ({ peer, params }) =>
    peer.number < 9 ? refuse('UNAVAILABLE') : { subscription: 's', from: params.from, head: 'e1:101', missed: 1 };
  daemon.peer.cut();
  const last = await daemon.connection(9);
  await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 9);
  last.send(event(101));
  await sb.ping();
  expect(offsets(got)).toEqual([101]);
  // An open session is not enough to begin the delays anew.
  expect(Math.max(...delays)).toBeGreaterThan(1);
});

test('a listener that throws, or rejects, does not end the feed', async () => {
  const daemon = await fakeDaemon();
  const errors: string[] = [];
  const sb = await client(daemon, { onError: (error) => errors.push(error.message) });
  let calls = 0;
  const third = deferred();
  await sb.subscribe({ types: ['>'] }, () => {
    calls++;
    if (calls === 1) throw new Error('thrown');
    if (calls === 2) return Promise.reject(new Error('rejected'));
    return third.resolve();
  });
  daemon.peer.send(event(101), event(102), event(103));
  await third.promise;
  expect(errors).toEqual(['thrown', 'rejected']);
});

test('an async listener gets one delivery at a time, in order', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const order: string[] = [];
  const done = deferred();
  await sb.subscribe({ types: ['>'] }, async ({ position }) => {
    order.push(`> ${position}`);
    await sb.ping();
    order.push(`< ${position}`);
    if (position === 'e1:103') done.resolve();
  });
  daemon.peer.send(event(101), event(102), event(103));
  await done.promise;
  expect(order).toEqual(['> e1:101', '< e1:101', '> e1:102', '< e1:102', '> e1:103', '< e1:103']);
});

test('without a listener it is iterated; leaving the loop ends the subscription', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const subscription = await sb.subscribe({ types: ['>'] });
  daemon.peer.send(event(101), event(102));
  const got: Delivery[] = [];
  for await (const delivery of subscription) {
    got.push(delivery);
    if (got.length === 2) daemon.peer.send(event(103));
    if (got.length === 3) break;
  }
  expect(offsets(got)).toEqual([101, 102, 103]);
  expect((await daemon.asked('feed.unsubscribe')).params.subscription).toMatch(/^sub/);
  expect(sb.position).toBeUndefined();
  daemon.peer.cut();
  await daemon.connection(1);
  await sb.ping();
  expect(daemon.all('feed.subscribe')).toHaveLength(1);
});

test('rxjs takes it as it is, and its end ends the subscription', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const seen = new Promise((resolve, reject) => {
    rxFrom(sb.observe({ types: ['>'] }) as never)
      .pipe(
        map((delivery) => (delivery as Delivery).position),
        take(2),
        toArray(),
      )
      .subscribe({ next: resolve, error: reject });
  });
  await daemon.asked('feed.subscribe');
  await sb.ping();
  daemon.peer.send(event(101), event(102), event(103));
  expect(await seen).toEqual(['e1:101', 'e1:102']);
  await daemon.asked('feed.unsubscribe');
});

test('F3: over 100 cuts in the middle of a stream nothing is lost and nothing doubled', async () => {
  const daemon = await fakeDaemon();
  const head = 100 + 5000;
  daemon.on['feed.subscribe'] = ({ peer, id, params }) => {
    const at = Number((params.from ?? 'e1:100').split(':')[1]);
    peer.send({ id, ok: { subscription: 's', from: `e1:${at}`, head: `e1:${head}`, missed: head - at } });
    // A part of the log, in messages of many lines; then the link is cut with the rest of it still unsent.
    for (let next = at + 1; next <= Math.min(head, at + 64); next += 16) {
      peer.send(
        ...Array.from({ length: 16 }, (_, i) => event(next + i)).filter(
          ({ offset }: { offset?: number }) => offset! <= head,
        ),
      );
    }
    if (at + 64 < head) setImmediate(() => peer.cut());
    return silence;
  };
  const sb = await client(daemon, { backoff: { baseMs: 1, capMs: 2 } });
  const got: number[] = [];
  const done = deferred();
  await sb.subscribe({ types: ['>'] }, (delivery) => {
    if (delivery.event) got.push(delivery.offset);
    if (got.at(-1) === head) done.resolve();
  });
  await done.promise;
  expect(daemon.peers.length).toBeGreaterThan(70);
  expect(got).toEqual(Array.from({ length: 5000 }, (_, i) => 101 + i));
});
