import { expect, test, vi } from 'vitest';
import { surelyMs } from '../../src/client/holder.js';
import type { Signalbox, TaskContext, Worker, WorkOptions } from '../../src/client/index.js';
import { deferred, type FakeDaemon, pushed, refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, useRig } from './rig.js';

useRig();

interface Held {
  daemon: FakeDaemon;
  sb: Signalbox;
  worker: Worker;
  context: TaskContext;
  /** Lets the handler return. */
  finish(): void;
  aborted: Promise<{ reason: unknown; at: number }>;
}

/** One task, held by a running handler. */
async function holding(ttlMs: number, task: object = {}, options: WorkOptions = {}): Promise<Held> {
  const daemon = await fakeDaemon();
  daemon.ttlMs = ttlMs;
  const sb = await client(daemon);
  const context = deferred<TaskContext>();
  const gate = deferred();
  const aborted = deferred<{ reason: unknown; at: number }>();
  const worker = sb.work('q', options, (_task, given) => {
    given.signal.addEventListener('abort', () =>
      aborted.resolve({ reason: given.signal.reason, at: performance.now() }),
    );
    context.resolve(given);
    return gate.promise;
  });
  await worker.ready;
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1, task)] });
  return { daemon, sb, worker, context: await context.promise, finish: gate.resolve, aborted: aborted.promise };
}

/** A frozen process: nothing runs, no timer, no I/O. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test('surely held is the promise minus 50 ms, or 2 % where that is more', () => {
  expect([500, 2500, 15_000].map(surelyMs)).toEqual([450, 2450, 14_700]);
});

test('while something is held, a ping goes out every sixth of the ttl', async () => {
  const { daemon, finish } = await holding(600);
  const before = daemon.all('ping').length;
  const started = performance.now();
  await daemon.when(() => daemon.all('ping').length >= before + 5);
  const perPing = (performance.now() - started) / 5;
  expect(perPing).toBeGreaterThan(70);
  expect(perPing).toBeLessThan(300);
  finish();
});

test('A11: a task far longer than the ttl stays ours while pings are answered', async () => {
  const { daemon, context, finish } = await holding(300);
  await daemon.when(() => daemon.all('ping').length >= 20);
  expect(context.signal.aborted).toBe(false);
  finish();
  expect((await daemon.asked('queue.complete')).params.tasks[0]).toMatchObject({ task: 't1', fence: 1 });
});

test('L1: a link that is cut silently: the work ends by our own clock, before the ttl, with no word from the daemon', async () => {
  const { daemon, aborted } = await holding(500);
  await daemon.asked('ping');
  const lastProof = performance.now();
  daemon.on.ping = () => silence;
  daemon.on['session.open'] = () => silence;
  const { reason, at } = await aborted;
  expect(reason).toMatchObject({ name: 'Ended', reason: 'cannotRenew' });
  // 450 ms and however late a busy machine is with its timers.
  expect(at - lastProof).toBeLessThan(700);
  expect(at - lastProof).toBeGreaterThan(250);
});

test('L1: answers that prove nothing do not count, however alive the socket looks', async () => {
  const { daemon, sb, aborted } = await holding(400);
  daemon.on.ping = () => refuse('UNAVAILABLE', { retry: true });
  const started = performance.now();
  let isOver = false;
  void aborted.then(() => (isOver = true));
  while (!isOver) await sb.enqueue('q', 1);
  expect(performance.now() - started).toBeLessThan(700);
  expect((await aborted).reason).toMatchObject({ reason: 'cannotRenew' });
});

test('work that could not be renewed is handed back when its handler has stopped: the session may live on', async () => {
  const { daemon, aborted, finish } = await holding(300);
  daemon.on.ping = () => refuse('UNAVAILABLE');
  await aborted;
  expect(daemon.all('queue.release')).toHaveLength(0);
  finish();
  expect((await daemon.asked('queue.release')).params.tasks).toEqual([{ task: 't1', fence: 1, reason: 'cannotRenew' }]);
  expect(daemon.all('queue.complete')).toHaveLength(0);
});

test('a task with its own lease is renewed by lease.renew, as often as its own lease asks', async () => {
  const { daemon, context, finish } = await holding(15_000, { leaseMs: 300 }, { leaseMs: 300 });
  const started = performance.now();
  await daemon.when(() => daemon.all('lease.renew').length >= 8);
  expect(performance.now() - started).toBeLessThan(1500);
  expect(daemon.all('lease.renew')[3]?.params).toEqual({ leases: [{ lease: 'task:t1', fence: 1 }] });
  expect(context.signal.aborted).toBe(false);
  finish();
});

test('a task with its own lease ends with that lease, though the session is well', async () => {
  const { daemon, aborted } = await holding(15_000, { leaseMs: 300 });
  await daemon.asked('lease.renew');
  daemon.on['lease.renew'] = () => silence;
  const started = performance.now();
  expect((await aborted).reason).toMatchObject({ reason: 'cannotRenew' });
  expect(performance.now() - started).toBeLessThan(600);
});

test('a renewal that is refused ends the work', async () => {
  const { daemon, aborted } = await holding(15_000, { leaseMs: 300 });
  daemon.on['lease.renew'] = () => ({ leases: [refuse('STALE_FENCE')] });
  expect((await aborted).reason).toMatchObject({ reason: 'leaseLapsed' });
});

test('leases of their own are renewed right after a resume', async () => {
  const { daemon, finish } = await holding(15_000, { leaseMs: 60_000 });
  daemon.holdings = [{ lease: 'task:t1', kind: 'task', name: 't1', state: 'held', fence: 1 }];
  daemon.peer.cut();
  await daemon.asked('lease.renew', ({ peer }) => peer.number === 1);
  finish();
});

test('L7: after a freeze the signal is aborted before the first line of the handler, and nothing of it is sent', async () => {
  const { daemon, context, aborted, finish } = await holding(300);
  let seen: boolean | undefined;
  setImmediate(() => {
    block(400);
    // No timer of ours has run yet: asking is enough.
    seen = context.signal.aborted;
    finish();
  });
  await aborted;
  expect(seen).toBe(true);
  await daemon.asked('queue.release');
  expect(daemon.all('queue.complete')).toHaveLength(0);
});

test('Q13: a handler that blocks past its lease and then reports: the report is dropped', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 300;
  const sb = await client(daemon);
  const told: Promise<unknown>[] = [];
  const worker = sb.work('q', {}, (_task, { progress }) => {
    block(400);
    told.push(progress(1).catch((error) => error.reason));
    return 'A';
  });
  await worker.ready;
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1)] });
  expect((await daemon.asked('queue.release')).params.tasks).toEqual([{ task: 't1', fence: 1, reason: 'cannotRenew' }]);
  expect(await told[0]).toBe('cannotRenew');
  expect(daemon.all('queue.complete')).toHaveLength(0);
  expect(daemon.all('queue.progress')).toHaveLength(0);
});

test('Q13: the same for a handler that says nothing before it returns', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 300;
  const sb = await client(daemon);
  const worker = sb.work('q', {}, () => {
    block(400);
    return 'A';
  });
  await worker.ready;
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1)] });
  await daemon.asked('queue.release');
  expect(daemon.all('queue.complete')).toHaveLength(0);
});

test('after a freeze a push that was waiting in the socket is begun only when the session is proved', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 300;
  const sb = await client(daemon);
  const started: string[] = [];
  const worker = sb.work('q', { concurrency: 2 }, ({ task }) => started.push(task));
  await worker.ready;
  daemon.on.ping = () => silence;
  await daemon.asked('ping');
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1), pushed('t2', 2)] });
  block(200);
  const asked = await daemon.asked('ping');
  expect(started).toEqual([]);
  // Meanwhile one of them went to somebody else; the word of it stands before the answer.
  asked.peer.send(
    { op: 'revoked', tasks: [{ task: 't1', fence: 1, reason: 'undelivered' }] },
    { id: asked.id, ok: { epoch: 'e1' } },
  );
  expect((await daemon.asked('queue.complete')).params.tasks).toMatchObject([{ task: 't2', fence: 2 }]);
  expect(started).toEqual(['t2']);
});

test('an idle worker keeps its proof fresh, an idle client without workers asks nothing', async () => {
  const daemon = await fakeDaemon();
  daemon.ttlMs = 120;
  const sb = await client(daemon);
  await sb.enqueue('q', 1);
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(daemon.all('ping')).toHaveLength(0);
  const worker = sb.work('q', {}, () => {});
  await daemon.when(() => daemon.all('ping').length >= 3);
  await worker.stop();
  expect(sb.identity).toBeDefined();
});

test('the wall clock counts when it runs ahead: a laptop that slept', async () => {
  const { context, finish } = await holding(15_000);
  expect(context.signal.aborted).toBe(false);
  const real = Date.now;
  const spy = vi.spyOn(Date, 'now').mockImplementation(() => real() + 20_000);
  try {
    expect(context.signal.aborted).toBe(true);
    expect(context.signal.reason).toMatchObject({ reason: 'cannotRenew' });
  } finally {
    spy.mockRestore();
    finish();
  }
});
