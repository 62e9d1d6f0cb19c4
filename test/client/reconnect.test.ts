import { expect, test } from 'vitest';
import { Closed, type ConnectOptions, type Signalbox, type Status } from '../../src/client/index.js';
import { type FakeDaemon, pushed, refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

async function watched(
  daemon: FakeDaemon,
  options: ConnectOptions = {},
): Promise<{ sb: Signalbox; statuses: Status[] }> {
  const statuses: Status[] = [];
  const sb = await client(daemon, { ...options, onStatus: (status) => statuses.push(status) });
  return { sb, statuses };
}

test('after a cut the session is resumed, and the workers are declared under their names', async () => {
  const daemon = await fakeDaemon();
  const { sb, statuses } = await watched(daemon);
  const worker = sb.work('q', { concurrency: 3, kinds: ['a'], leaseMs: 9000 }, () => {});
  await worker.ready;
  daemon.peer.cut();
  const again = await daemon.asked('queue.work', ({ peer }) => peer.number === 1);
  expect(daemon.all('session.open')[1]?.params).toMatchObject({ agent: 'a1', resume: { session: 's1', key: 'k1' } });
  expect(again.params).toEqual({ worker: worker.id, queue: 'q', credit: 3, kinds: ['a'], leaseMs: 9000 });
  expect(statuses.map(({ state }) => state)).toEqual(['open', 'reconnecting', 'open']);
  expect(statuses[2]).toEqual({ state: 'open', resumed: true });
});

test.each([4400, 4401, 4403, 4409, 4429, 4477, 1009])('close code %i is final, and everybody is told', async (code) => {
  const daemon = await fakeDaemon();
  daemon.on['queue.get'] = () => silence;
  const { sb, statuses } = await watched(daemon);
  const pending = rejection(sb.queue.get({ task: 't' }));
  const aborted = new Promise((resolve) => {
    sb.work(
      'q',
      {},
      (_task, { signal }) => new Promise(() => signal.addEventListener('abort', () => resolve(signal.reason))),
    );
  });
  const { params } = await daemon.asked('queue.work');
  daemon.peer.send({ op: 'tasks', worker: params.worker, tasks: [pushed('t1', 1)] });
  await sb.ping();
  daemon.peer.send({ op: 'closed', code, reason: 'because' });
  daemon.peer.close(code);
  const closed = await sb.closed;
  expect(closed).toMatchObject({ code, reason: 'because' });
  expect(await pending).toBe(closed);
  expect(await aborted).toMatchObject({ name: 'Ended', reason: 'closed' });
  expect(await rejection(sb.enqueue('q', 1))).toBe(closed);
  expect(statuses.at(-1)).toEqual({ state: 'closed', closed });
  expect(daemon.peers).toHaveLength(1);
});

test.each([1011, 1012, 1013, 4501, 4508, 4599])('close code %i: come back', async (code) => {
  const daemon = await fakeDaemon();
  const { sb } = await watched(daemon);
  daemon.peer.close(code);
  await daemon.connection(1);
  await sb.ping();
});

test('what the closed line says counts even if the close frame never comes', async () => {
  const daemon = await fakeDaemon();
  const { sb } = await watched(daemon);
  daemon.peer.send({ op: 'closed', code: 4409, reason: 'replaced' });
  await sb.ping();
  daemon.peer.cut();
  expect(await sb.closed).toMatchObject({ code: 4409, reason: 'replaced' });
});

test.each([
  ['drain push', { op: 'drain', afterMs: 77 }],
  ['closed line', { op: 'closed', code: 1012, reason: 'drain', afterMs: 77 }],
])('the client comes back when the %s says', async (_, line) => {
  const daemon = await fakeDaemon();
  const { sb, statuses } = await watched(daemon);
  daemon.peer.send(line);
  await sb.ping();
  daemon.peer.close(1012);
  await daemon.connection(1);
  expect(statuses[1]).toMatchObject({ state: 'reconnecting', code: 1012, delayMs: 77 });
});

test.each([
  ['drained', { op: 'drain', afterMs: 30_000 }, 1012],
  ['drained, and cut before its turn', { op: 'drain', afterMs: 30_000 }, 1006],
  ['drained by a daemon that says no more', { op: 'other' }, 1012],
  ['too many for it', { op: 'closed', code: 1013, reason: 'overload', afterMs: 1 }, 1013],
])('%s: a client with another address goes there, and does not wait for the first', async (_, line, code) => {
  const daemon = await fakeDaemon();
  const other = await fakeDaemon();
  const sb = await client(daemon, { url: [daemon.url, other.url] });
  daemon.peer.send(line);
  await sb.ping();
  if (code === 1006) daemon.peer.cut();
  else daemon.peer.close(code);
  expect((await other.asked('session.open')).params.resume).toEqual({ session: 's1', key: 'k1' });
  await sb.ping();
  expect(daemon.peers).toHaveLength(1);
});

test('a session that a daemon cannot open for the moment is opened at the next address', async () => {
  const daemon = await fakeDaemon();
  const other = await fakeDaemon();
  daemon.on['session.open'] = () => refuse('DRAINING', { retry: true });
  await client(daemon, { url: [daemon.url, other.url] });
  expect([daemon.peers.length, other.peers.length]).toEqual([1, 1]);
});

test('delays are random, grow to their cap, and begin anew after a good connection', async () => {
  const daemon = await fakeDaemon();
  daemon.on['session.open'] = ({ peer }) =>
    peer.number > 0 && peer.number < 12
      ? refuse('UNAVAILABLE')
      : { session: 's', key: 'k', ttlMs: 15_000, resumed: true, holdings: [] };
  const { sb, statuses } = await watched(daemon, { backoff: { baseMs: 1, capMs: 16 } });
  daemon.peer.cut();
  await daemon.connection(12);
  await sb.ping();
  const delays = statuses.flatMap((status) => (status.state === 'reconnecting' ? status.delayMs : []));
  expect(delays).toHaveLength(12);
  expect(Math.max(...delays)).toBeLessThanOrEqual(16);
  expect(Math.max(...delays.slice(5))).toBeGreaterThan(1);
  expect(new Set(delays).size).toBe(12);
  daemon.peer.cut();
  await daemon.connection(13);
  expect(
    (statuses.findLast(({ state }) => state === 'reconnecting') as { delayMs: number }).delayMs,
  ).toBeLessThanOrEqual(1);
});

test.each(['SESSION_LOST', 'BAD_KEY'])(
  '%s at the resume: a new session, all handlers aborted, the workers declared again',
  async (code) => {
    const daemon = await fakeDaemon();
    const { sb, statuses } = await watched(daemon);
    const reasons: unknown[] = [];
    const worker = sb.work('q', { concurrency: 2 }, async (_task, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      reasons.push(signal.reason);
      return 'too late';
    });
    await worker.ready;
    daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1), pushed('t2', 2)] });
    await sb.ping();
    expect(worker.running).toBe(2);
    const usual = daemon.on['session.open'];
    daemon.on['session.open'] = ({ params }) =>
      params.resume ? refuse(code) : { session: 's2', key: 'k2', ttlMs: 15_000, resumed: false, holdings: [] };
    daemon.peer.cut();
    await daemon.asked('queue.work', ({ peer }) => peer.number === 1);
    await daemon.when(() => worker.running === 0 || daemon.all('ping').length > 5, 2000).catch(() => {});
    expect(reasons).toEqual([
      expect.objectContaining({ reason: 'sessionLost' }),
      expect.objectContaining({ reason: 'sessionLost' }),
    ]);
    expect(sb.identity).toEqual({ session: 's2', key: 'k2' });
    expect(statuses.at(-1)).toEqual({ state: 'open', resumed: false });
    expect(daemon.all('queue.complete')).toHaveLength(0);
    expect(usual).toBeUndefined();
  },
);

test('a session lost under the open socket: the same there, and calls that met it are made again', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.enqueue'] = ({ params }) =>
    daemon.all('session.open').length === 1
      ? refuse('SESSION_LOST')
      : { tasks: params.tasks.map(() => ({ task: 't', state: 'ready' })) };
  const { sb } = await watched(daemon);
  let reason: unknown;
  const worker = sb.work('q', {}, async (_task, { signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    reason = signal.reason;
  });
  await worker.ready;
  const subscription = await sb.subscribe({ types: ['>'] }, () => {});
  daemon.peer.send(
    { op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1)] },
    { op: 'lost', kind: 'session', name: 's1', reason: 'revoked' },
  );
  expect(await sb.enqueue('q', 1)).toEqual({ task: 't', state: 'ready' });
  expect(daemon.all('session.open').map(({ params }) => params.resume)).toEqual([undefined, undefined]);
  expect(daemon.all('queue.work')).toHaveLength(2);
  expect(daemon.all('feed.subscribe')).toHaveLength(1);
  expect(reason).toMatchObject({ reason: 'sessionLost' });
  expect(daemon.peers).toHaveLength(1);
  await subscription.close();
});

test('the refusal alone tells that the session is lost', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.enqueue'] = ({ params }) =>
    daemon.all('session.open').length === 1
      ? refuse('SESSION_LOST')
      : { tasks: params.tasks.map(() => ({ task: 't', state: 'ready' })) };
  const { sb } = await watched(daemon);
  expect(await sb.enqueue('q', 1)).toEqual({ task: 't', state: 'ready' });
  expect(sb.identity?.session).toBe('s2');
});

test('a refusal of the session before, come late, does not end the new one', async () => {
  const daemon = await fakeDaemon();
  let answer: (ok: object) => void = () => {};
  daemon.on['queue.get'] = () =>
    daemon.all('queue.get').length === 1 ? new Promise((resolve) => (answer = resolve)) : { state: 'ready' };
  const { sb } = await watched(daemon);
  const got = sb.queue.get({ task: 't' });
  await daemon.asked('queue.get');
  daemon.peer.send({ op: 'lost', kind: 'session', name: 's1', reason: 'revoked' });
  await daemon.when(() => daemon.all('session.open').length === 2);
  await sb.ping();
  answer(refuse('SESSION_LOST'));
  expect(await got).toEqual({ state: 'ready' });
  expect(daemon.all('session.open')).toHaveLength(2);
});

test('a link that is dead without saying so is cut and made anew', async () => {
  const daemon = await fakeDaemon();
  daemon.hello = { ...daemon.hello, heartbeatMs: 60 };
  const { sb, statuses } = await watched(daemon);
  daemon.peer.freeze();
  const started = performance.now();
  await daemon.connection(1);
  expect(performance.now() - started).toBeLessThan(3000);
  await sb.ping();
  expect(statuses.map(({ state }) => state)).toEqual(['open', 'reconnecting', 'open']);
});

test('a listener that is no daemon is left alone again', async () => {
  const daemon = await fakeDaemon();
  daemon.hello = { op: 'somethingElse' };
  const error = await rejection(client(daemon, { connectTimeoutMs: 100 }));
  expect(error).toBeInstanceOf(Closed);
});

test('F3: 200 cuts, each as soon as the session is open: every one is resumed', async () => {
  const daemon = await fakeDaemon();
  const { sb } = await watched(daemon, { backoff: { baseMs: 2, capMs: 5 } });
  for (let n = 1; n <= 200; n++) {
    daemon.peer.cut();
    await daemon.asked('session.open', ({ peer }) => peer.number === n);
  }
  await sb.ping();
  expect(
    daemon
      .all('session.open')
      .slice(1)
      .every(({ params }) => params.resume.session === 's1'),
  ).toBe(true);
});

const handler = async ({ signal }: { signal: AbortSignal }): Promise<boolean> => {
  await new Promise((resolve) => setImmediate(resolve));
  return signal.aborted;
};

test.each([
  {
    what: 'lock',
    ask: 'lock.acquire',
    run: (sb: Signalbox) => sb.lock('n', handler),
    lease: ({ grant }: { grant: string }) => `lock:${grant}`,
    granted: ({ grant }: { grant: string }) => ({ grant, state: 'held', epoch: 'e1', durability: 'aof' }),
  },
  {
    what: 'limit',
    ask: 'limit.reserve',
    run: (sb: Signalbox) => sb.limit('n', { concurrency: 1 }, handler),
    lease: ({ reservation }: { reservation: string }) => `reservation:${reservation}`,
    granted: ({ reservation }: { reservation: string }) => ({ reservation, name: 'n' }),
  },
])(
  'a grant of a $what in one message with the answer to the resume, which still shows it waiting, is ours',
  async (its) => {
    const daemon = await fakeDaemon();
    daemon.on[its.ask] = () => ({ state: 'waiting', place: 1 });
    daemon.on['lock.release'] = () => ({ state: 'released' });
    daemon.on['limit.settle'] = () => ({});
    const { sb } = await watched(daemon);
    const ran = its.run(sb);
    const { params } = await daemon.asked(its.ask);
    const usual = { session: 's1', key: 'k1', ttlMs: 15_000, graceMs: 15_000, position: 'e1:100', resumed: true };
    daemon.on['session.open'] = ({ peer, id }) => {
      const holdings = [{ lease: its.lease(params), kind: its.what, name: 'n', state: 'waiting' }];
      peer.send(
        { id, ok: { ...usual, holdings } },
        { op: 'granted', fence: 7, validMs: 15_000, ...its.granted(params) },
      );
      return silence;
    };
    daemon.peer.cut();
    expect(await ran).toBe(false);
  },
);
