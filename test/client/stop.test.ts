import { expect, test } from 'vitest';
import { stopOnSignals } from '../../src/client/index.js';
import { deferred, pushed, silence } from './fake-daemon.js';
import { client, fakeDaemon, useRig } from './rig.js';

useRig();

test('Q15: a stop takes nothing more, lets the handlers finish, and waits until their outcomes are answered', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const gate = deferred();
  const worker = sb.work('q', { concurrency: 2 }, () => gate.promise);
  await worker.ready;
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1)] });
  await sb.ping();
  let answer: (ok: object) => void = () => {};
  daemon.on['queue.complete'] = () => new Promise((resolve) => (answer = resolve));
  const order: string[] = [];
  const closing = sb.close().then(() => order.push('closed'));
  expect((await daemon.asked('queue.credit')).params.credit).toBe(0);
  // A push that crossed the credit: it was never begun, so it costs no attempt.
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t2', 2)] });
  expect((await daemon.asked('queue.release')).params.tasks).toEqual([{ task: 't2', fence: 2, reason: 'undelivered' }]);
  gate.resolve();
  await daemon.asked('queue.complete');
  order.push('answered');
  answer({ tasks: [{ state: 'completed' }] });
  await closing;
  expect(order).toEqual(['answered', 'closed']);
  expect(daemon.log.at(-1)?.op).toBe('session.close');
  expect(await sb.closed).toMatchObject({ code: 1000 });
});

test('after the limit what still runs is aborted and handed back, then the session is closed', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const seen = deferred<unknown>();
  const worker = sb.work('q', {}, (_task, { signal }) => {
    signal.addEventListener('abort', () => seen.resolve(signal.reason));
    return new Promise(() => {});
  });
  await worker.ready;
  daemon.peer.send({ op: 'tasks', worker: worker.id, tasks: [pushed('t1', 1)] });
  await sb.ping();
  await sb.close({ limitMs: 50 });
  expect(await seen.promise).toMatchObject({ reason: 'drained' });
  expect(daemon.log.slice(-2).map(({ op }) => op)).toEqual(['queue.release', 'session.close']);
  expect(daemon.all('queue.release')[0]?.params.tasks).toEqual([{ task: 't1', fence: 1, reason: 'drained' }]);
});

test('Q15: 200 rounds of closing right after the last completion: every one was acknowledged', async () => {
  const daemon = await fakeDaemon();
  for (let round = 0; round < 200; round++) {
    const sb = await client(daemon);
    const worker = sb.work('q', { concurrency: 3 }, () => round);
    await worker.ready;
    const tasks = [0, 1, 2].map((n) => pushed(`r${round}-${n}`, n + 1));
    daemon.peer.send({ op: 'tasks', worker: worker.id, tasks });
    await daemon.asked('queue.complete');
    await sb.close();
  }
  const completed = daemon
    .all('queue.complete')
    .flatMap(({ params }) => params.tasks.map(({ task }: { task: string }) => task));
  expect(completed).toHaveLength(600);
  expect(new Set(completed).size).toBe(600);
});

test('closing waits for the answers to what was asked before, but not for ever', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const enqueued = sb.enqueue('q', 1);
  await sb.close();
  expect((await enqueued).state).toBe('ready');

  const other = await client(daemon);
  daemon.on['queue.get'] = () => silence;
  const pending = other.queue.get({ task: 't' }).catch((error: Error) => error.name);
  await other.close({ limitMs: 30 });
  expect(await pending).toBe('Closed');
});

test('closing while the daemon is away ends too', async () => {
  const daemon = await fakeDaemon();
  const cut = deferred();
  const sb = await client(daemon, {
    backoff: { baseMs: 60_000, capMs: 60_000 },
    onStatus: ({ state }) => state === 'reconnecting' && cut.resolve(),
  });
  sb.work('q', {}, () => {});
  daemon.peer.cut();
  await cut.promise;
  await sb.close({ limitMs: 50 });
  expect(await sb.closed).toMatchObject({ code: 1000 });
});

test('SIGTERM closes gracefully where it was asked for, once', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const before = process.listenerCount('SIGTERM');
  const remove = stopOnSignals(sb, { limitMs: 100 });
  expect(process.listenerCount('SIGTERM')).toBe(before + 1);
  process.emit('SIGTERM');
  await sb.closed;
  expect(daemon.all('session.close')).toHaveLength(1);
  expect(process.listenerCount('SIGTERM')).toBe(before);
  remove();
});
