import { expect, test } from 'vitest';
import { type Asked, event, type FakeDaemon, silence } from './fake-daemon.js';
import { client, fakeDaemon, useRig } from './rig.js';

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
