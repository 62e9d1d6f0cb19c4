import { expect, test } from 'vitest';
import type { Delivery, Signalbox } from '../../src/client/index.js';
import { type Asked, type Deferred, deferred, event, type FakeDaemon, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

/** Streams a log from the position asked for, as fast as the socket takes it, until it is unsubscribed. */
function streamed(daemon: FakeDaemon, head: number): { sent(): number } {
  let sent = 0;
  const running = new Set<object>();
  daemon.on['feed.subscribe'] = ({ peer, id, params }: Asked) => {
    let next = Number((params.from ?? 'e1:100').split(':')[1]) + 1;
    peer.send({ id, ok: { subscription: 's', from: `e1:${next - 1}`, head: `e1:${head}`, missed: 0 } });
    running.add(peer);
    const pump = (): void => {
      for (; running.has(peer) && next <= head && peer.buffered < 256 * 1024; next++, sent++)
        peer.send(event(next, 'a.b', { fill: 'x'.repeat(2000) }));
      if (running.has(peer) && next <= head) setImmediate(pump);
    };
    setImmediate(pump);
    return silence;
  };
  daemon.on['feed.unsubscribe'] = ({ peer }) => {
    running.delete(peer);
    return {};
  };
  return { sent: () => sent };
}

test('a slow iterator halts the feed: the socket is not read, and the store stays within its bound', async () => {
  const daemon = await fakeDaemon();
  const log = streamed(daemon, 60_000);
  const sb = await client(daemon, { feedBuffer: 100 });
  const subscription = await sb.subscribe({ types: ['>'] });
  await new Promise((resolve) => setTimeout(resolve, 300));
  // What the kernel and one read hold, of 120 MB.
  expect(log.sent()).toBeLessThan(20_000);
  const stored = Number(sb.position?.split(':')[1]) - 100;
  expect(stored).toBeGreaterThanOrEqual(100);
  expect(stored).toBeLessThan(300);
  expect(daemon.all('feed.unsubscribe')).toHaveLength(0);
  await subscription.close();
});

test('a call made while the socket is not read gets its answer: the cursor is ended for it', async () => {
  const daemon = await fakeDaemon();
  streamed(daemon, 60_000);
  const sb = await client(daemon, { feedBuffer: 100 });
  const subscription = await sb.subscribe({ types: ['>'] });
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(daemon.all('feed.unsubscribe')).toHaveLength(0);
  const started = performance.now();
  await sb.ping();
  expect(performance.now() - started).toBeLessThan(900);
  expect(daemon.all('feed.unsubscribe')).toHaveLength(1);
  const got: number[] = [];
  for await (const { position } of subscription) {
    got.push(Number(position.split(':')[1]));
    if (got.length === 1000) break;
  }
  expect(got).toEqual(Array.from({ length: 1000 }, (_, i) => 101 + i));
});

test('nobody lets the socket stand for long', async () => {
  const daemon = await fakeDaemon();
  streamed(daemon, 60_000);
  const sb = await client(daemon, { feedBuffer: 100 });
  await sb.subscribe({ types: ['>'] });
  await daemon.asked('feed.unsubscribe');
});

test('a loop that awaits calls while the feed is halted is not stuck: the cursor ends and begins again, nothing is lost', async () => {
  const daemon = await fakeDaemon();
  streamed(daemon, 1500);
  const sb = await client(daemon, { feedBuffer: 64 });
  const got: number[] = [];
  for await (const delivery of await sb.subscribe({ types: ['>'] })) {
    got.push(Number(delivery.position.split(':')[1]));
    if (got.length % 10 === 0) await sb.enqueue('q', got.length);
    if (got.length === 1400) break;
  }
  expect(got).toEqual(Array.from({ length: 1400 }, (_, i) => 101 + i));
  expect(daemon.all('feed.unsubscribe').length).toBeGreaterThan(1);
});

test('a slow listener is no different, and a cut while it is slow loses nothing', async () => {
  const daemon = await fakeDaemon();
  streamed(daemon, 30_000);
  const sb = await client(daemon, { feedBuffer: 50 });
  const got: number[] = [];
  await new Promise<void>((resolve) => {
    void sb.subscribe({ types: ['>'] }, async ({ position }) => {
      got.push(Number(position.split(':')[1]));
      if (got.length === 200 || got.length === 12_000) daemon.peer.cut();
      if (got.length % 20 === 0) await new Promise((next) => setImmediate(next));
      if (got.length === 25_000) resolve();
    });
  });
  expect(got).toEqual(Array.from({ length: 25_000 }, (_, i) => 101 + i));
  expect(daemon.peers).toHaveLength(3);
});

test('a worker beside a slow iterator keeps its session proved', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 1500;
  streamed(daemon, 60_000);
  const sb = await client(daemon, { feedBuffer: 50 });
  let reason: unknown;
  const worker = sb.work(
    'q',
    {},
    (_task, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason;
          resolve(undefined);
        });
      }),
  );
  await worker.ready;
  daemon.peer.send({
    op: 'tasks',
    worker: worker.id,
    tasks: [{ task: 't', queue: 'q', payload: 1, attempt: 1, maxAttempts: 3, fence: 1 }],
  });
  await sb.subscribe({ types: ['>'] });
  await daemon.when(() => daemon.all('ping').length > 8);
  expect(reason).toBeUndefined();
});

/** A subscription that is full at 200, the socket not read: what it stored is given out once the gate opens. */
async function full(daemon: FakeDaemon): Promise<{ sb: Signalbox; got: Delivery[]; gate: Deferred<void> }> {
  const sb = await client(daemon, { feedBuffer: 50 });
  const got: Delivery[] = [];
  const gate = deferred();
  await sb.subscribe({ types: ['>'] }, (delivery) => {
    got.push(delivery);
    return gate.promise;
  });
  await daemon.asked('feed.subscribe');
  daemon.peer.send(...Array.from({ length: 100 }, (_, i) => event(101 + i)));
  while (sb.position !== 'e1:200') await new Promise((next) => setImmediate(next));
  return { sb, got, gate };
}

test('a second subscription made while another is full does not move the place to go on from', async () => {
  const daemon = await fakeDaemon();
  const { sb, got, gate } = await full(daemon);
  // The daemon ended the cursor before it had looked up where the new one begins: at the head.
  daemon.on['feed.subscribe'] = () => ({ subscription: 'late', from: 'e1:600', head: 'e1:600', missed: 0 });
  const second: Delivery[] = [];
  await sb.subscribe({ types: ['note.>'] }, (delivery) => second.push(delivery));
  const [asked, ended] = [await daemon.asked('feed.subscribe'), await daemon.asked('feed.unsubscribe')];
  expect([asked.params, ended.params]).toEqual([{ types: ['note.>'] }, { subscription: 'sub1' }]);
  expect(asked.message).toBe(ended.message);
  expect((await daemon.asked('feed.unsubscribe')).params).toEqual({ subscription: 'late' });
  expect(sb.position).toBe('e1:200');
  delete daemon.on['feed.subscribe'];
  gate.resolve();
  for (const types of [['>'], ['note.>']])
    expect((await daemon.asked('feed.subscribe')).params).toEqual({ types, from: 'e1:200', onGap: 'skip' });
  daemon.peer.send(event(201));
  await sb.ping();
  expect(second.map(({ position }) => position)).toEqual(['e1:201']);
  while (got.length < 101) await new Promise((next) => setImmediate(next));
  expect(got.at(-1)).toMatchObject({ offset: 201 });
});

test('the cursor does not begin again before a subscription on its way is answered and ended', async () => {
  const daemon = await fakeDaemon();
  const { sb, gate } = await full(daemon);
  const answer = deferred<object>();
  daemon.on['feed.subscribe'] = () => answer.promise;
  const second = sb.subscribe({ types: ['note.>'] }, () => {});
  await daemon.asked('feed.subscribe');
  gate.resolve();
  await daemon.asked('feed.unsubscribe');
  // Time enough to begin again, if it did: its answers come in order.
  await sb.ping();
  await sb.ping();
  expect(daemon.all('feed.subscribe')).toHaveLength(2);
  delete daemon.on['feed.subscribe'];
  answer.resolve({ subscription: 'late', from: 'e1:600', head: 'e1:600', missed: 0 });
  await second;
  expect((await daemon.asked('feed.unsubscribe')).params).toEqual({ subscription: 'late' });
  expect((await daemon.asked('feed.subscribe')).params).toEqual({ types: ['>'], from: 'e1:200', onGap: 'skip' });
});

test('a loop that makes a subscription of its own while the feed is halted is answered', async () => {
  const daemon = await fakeDaemon();
  const { sb } = await full(daemon);
  await sb.ping();
  await daemon.asked('feed.unsubscribe');
  await sb.subscribe({ types: ['note.>'] }, () => {});
  await daemon.asked('feed.unsubscribe');
  expect(await rejection(sb.subscribe({ types: ['x'], from: 'all' }))).toMatchObject({ code: 'BAD_POSITION' });
  daemon.peer.cut();
  await sb.subscribe({ types: ['y.>'] }, () => {});
  expect(daemon.all('feed.subscribe').filter(({ peer }) => peer.number === 1)).toHaveLength(1);
  expect(sb.position).toBe('e1:200');
});

test('a cut while the cursor is being ended: the next connection begins it, once, behind its session', async () => {
  const daemon = await fakeDaemon();
  const { sb, gate } = await full(daemon);
  daemon.on['feed.unsubscribe'] = () => silence;
  void sb.queue.stats({ queue: 'q' }).catch(() => {});
  await daemon.asked('feed.unsubscribe');
  gate.resolve();
  daemon.peer.cut();
  await daemon.asked('feed.subscribe', ({ peer }) => peer.number === 1);
  await sb.ping();
  const again = daemon.log.filter(({ peer }) => peer.number === 1).map(({ op }) => op);
  expect(again.filter((op) => op === 'feed.subscribe')).toHaveLength(1);
  expect(again[0]).toBe('session.open');
});
