import { expect, test } from 'vitest';
import { Fail, Refusal } from '../../src/client/index.js';
import { reported, working } from './at-work.js';
import { deferred, pushed, refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, useRig } from './rig.js';

useRig();

test('R10: the concurrency is the credit, and all that comes is started at once', async () => {
  const gate = deferred();
  const started: string[] = [];
  const { daemon, sb, worker, push } = await working(
    async ({ task }) => {
      started.push(task);
      await gate.promise;
    },
    { concurrency: 5, kinds: ['a'] },
  );
  expect((await daemon.asked('queue.work')).params).toEqual({ worker: worker.id, queue: 'q', credit: 5, kinds: ['a'] });
  push(pushed('t1', 1), pushed('t2', 2), pushed('t3', 3));
  await sb.ping();
  expect(started).toEqual(['t1', 't2', 't3']);
  expect(worker.running).toBe(3);
  gate.resolve();
  expect(await reported(daemon, 'complete')).toHaveLength(3);
});

test.each<[string, () => unknown, object]>([
  ['an error', () => new Error('boom'), { error: { message: 'boom' } }],
  [
    'an error with a code',
    () => Object.assign(new Error('boom'), { code: 'E_X' }),
    { error: { message: 'boom', code: 'E_X' } },
  ],
  ['something else', () => 'boom', { error: { message: 'boom' } }],
  [
    'Fail',
    () => new Fail('never', { code: 'C', data: { a: 1 } }),
    { error: { message: 'never', code: 'C', data: { a: 1 } }, retry: false },
  ],
  [
    'Fail with a time',
    () => new Fail('later', { afterMs: 500 }),
    { error: { message: 'later' }, retry: true, afterMs: 500 },
  ],
  [
    'a refusal with a time',
    () => new Refusal('LIMITED', 'wait', { afterMs: 70 }),
    { error: { message: 'wait', code: 'LIMITED' }, afterMs: 70 },
  ],
  [
    'a long message',
    () => new Error('😀'.repeat(900)),
    { error: { message: expect.stringMatching(/^(😀){499,500}/u) } },
  ],
])('throwing %s fails the task', async (_, make, expected) => {
  const { daemon, push } = await working(() => {
    throw make();
  });
  push(pushed('t1', 1));
  expect(await reported(daemon, 'fail')).toEqual([{ task: 't1', fence: 1, ...expected }]);
});

test('R11: a pool scales up and down while it runs, and running tasks are left alone', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const gate = deferred();
  const pool = sb.pool('q', { size: 2 }, () => gate.promise);
  await pool.ready;
  daemon.peer.send({ op: 'tasks', worker: pool.id, tasks: [pushed('t1', 1), pushed('t2', 2)] });
  await pool.scale(10);
  expect((await daemon.asked('queue.credit')).params).toEqual({ worker: pool.id, credit: 10 });
  await pool.scale(1);
  expect((await daemon.asked('queue.credit')).params).toEqual({ worker: pool.id, credit: 1 });
  expect([pool.size, pool.running]).toEqual([1, 2]);
  gate.resolve();
  expect(await reported(daemon, 'complete')).toHaveLength(2);
  daemon.peer.cut();
  expect((await daemon.asked('queue.work', ({ peer }) => peer.number === 1)).params.credit).toBe(1);
  expect(() => pool.scale(1001)).toThrow(RangeError);
});

test('a pool of size 0 is declared when it grows', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const pool = sb.pool('q', { size: 0 }, () => {});
  await pool.ready;
  expect(daemon.all('queue.work')).toHaveLength(0);
  await pool.scale(3);
  expect((await daemon.asked('queue.work')).params.credit).toBe(3);
});

test('a worker the daemon refuses says so', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.work'] = () => refuse('BAD_REQUEST', { path: 'kinds' });
  const sb = await client(daemon);
  await expect(sb.work('q', { kinds: [] }, () => {}).ready).rejects.toMatchObject({ code: 'BAD_REQUEST' });
});

test.each([
  ['refused for the moment', () => refuse('UNAVAILABLE', { retry: true, afterMs: 5 })],
  ['not answered', () => silence],
  ['refused as the session was lost', () => refuse('SESSION_LOST')],
])('a worker whose declaration is %s is declared again', async (_, answer) => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { timeoutMs: 100 });
  const worker = sb.work('q', { concurrency: 3 }, () => {});
  await worker.ready;
  daemon.on['queue.work'] = () => {
    delete daemon.on['queue.work'];
    return answer();
  };
  daemon.peer.cut();
  for (let i = 0; i < 2; i++)
    expect((await daemon.asked('queue.work', ({ peer }) => peer.number === 1)).params.credit).toBe(3);
  await worker.scale(4);
  expect((await daemon.asked('queue.credit')).params.credit).toBe(4);
  expect(daemon.all('queue.work')).toHaveLength(3);
});

test('whoever waits for a worker waits until it is declared, and hears of a refusal only if it is final', async () => {
  const daemon = await fakeDaemon();
  const answers = [refuse('UNAVAILABLE', { retry: true, afterMs: 1 }), silence, refuse('LIMIT')];
  daemon.on['queue.work'] = () => answers.shift();
  const sb = await client(daemon, { timeoutMs: 100 });
  await expect(sb.work('q', {}, () => {}).ready).rejects.toMatchObject({ code: 'LIMIT' });
  expect(daemon.all('queue.work')).toHaveLength(3);
});

test('a declaration that is refused for good after a cut, when nobody waits for it, goes to onError', async () => {
  const daemon = await fakeDaemon();
  const told = deferred<Error>();
  const sb = await client(daemon, { onError: (error) => told.resolve(error) });
  await sb.work('q', {}, () => {}).ready;
  daemon.on['queue.work'] = () => refuse('FORBIDDEN');
  daemon.peer.cut();
  expect(await told.promise).toMatchObject({ code: 'FORBIDDEN' });
});

test('a size that changes while the worker is being declared is told after that', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const answer = deferred<object>();
  daemon.on['queue.work'] = () => answer.promise;
  const pool = sb.pool('q', { size: 2 }, () => {});
  const scaled = [pool.scale(5), pool.scale(7)];
  await sb.ping();
  expect(daemon.all('queue.credit')).toHaveLength(0);
  answer.resolve({ worker: pool.id });
  await Promise.all([pool.ready, ...scaled]);
  expect(daemon.all('queue.credit').map(({ params }) => params.credit)).toEqual([7]);
  await pool.scale(7);
});

test('a worker that is stopped before its declaration is answered leaves no credit behind', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.work'] = ({ params }) => (params.credit > 0 ? silence : { worker: params.worker });
  const sb = await client(daemon, { timeoutMs: 100 });
  const worker = sb.work('q', {}, () => {});
  await daemon.asked('queue.work');
  await worker.stop();
  expect(daemon.all('queue.work').map(({ params }) => params.credit)).toEqual([1, 0]);
});

test('whoever waits for a worker is told when the connection ends for good, also while there is none', async () => {
  const daemon = await fakeDaemon();
  const offline = deferred();
  const sb = await client(daemon, {
    backoff: { baseMs: 60_000, capMs: 60_000 },
    onStatus: ({ state }) => state === 'reconnecting' && offline.resolve(),
  });
  daemon.peer.cut();
  await offline.promise;
  const pool = sb.pool('q', {}, () => {});
  sb.leave();
  await expect(pool.ready).rejects.toMatchObject({ name: 'Closed' });
  await expect(pool.scale(2)).rejects.toMatchObject({ name: 'Closed' });
});

test('revoked: the signal aborts with the reason, the late result is dropped, and no place is lost', async () => {
  const gate = deferred();
  const seen = deferred<unknown>();
  const { daemon, sb, worker, push } = await working(async ({ task }, { signal }) => {
    if (task !== 't1') return task;
    signal.addEventListener('abort', () => seen.resolve(signal.reason));
    await gate.promise;
    return 'late';
  });
  push(pushed('t1', 1));
  daemon.peer.send({
    op: 'revoked',
    tasks: [
      { task: 't1', fence: 99, reason: 'other' },
      { task: 't1', fence: 1, reason: 'timedOut' },
    ],
  });
  expect(await seen.promise).toMatchObject({ name: 'Ended', reason: 'timedOut' });
  // It ignores the signal: it still fills the only place.
  expect((await daemon.asked('queue.credit')).params.credit).toBe(0);
  gate.resolve();
  expect((await daemon.asked('queue.credit')).params.credit).toBe(1);
  push(pushed('t2', 2));
  expect(await reported(daemon, 'complete')).toEqual([{ task: 't2', fence: 2, result: 't2' }]);
  expect(daemon.all('queue.complete')).toHaveLength(1);
  expect(worker.running).toBeLessThanOrEqual(1);
  await sb.ping();
});

test('the same task under a new fence is another attempt; the old one is over', async () => {
  const reasons: unknown[] = [];
  const gate = deferred();
  const { daemon, push } = await working(
    async ({ fence }, { signal }) => {
      signal.addEventListener('abort', () => reasons.push(signal.reason.reason));
      await gate.promise;
      return fence;
    },
    { concurrency: 2 },
  );
  push(pushed('t1', 1));
  push(pushed('t1', 1), pushed('t1', 2));
  await daemon.asked('queue.credit');
  gate.resolve();
  expect(await reported(daemon, 'complete')).toEqual([{ task: 't1', fence: 2, result: 2 }]);
  expect(reasons).toEqual(['revoked']);
});

test('cancel: the signal aborts, the task is still ours, and what the handler makes of it is reported', async () => {
  const { daemon, push } = await working(
    async ({ task }, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      if (task === 't1') signal.throwIfAborted();
      return signal.reason.reason;
    },
    { concurrency: 2 },
  );
  push(pushed('t1', 1), pushed('t2', 2));
  daemon.peer.send({ op: 'cancel', task: 't1', fence: 1, reason: 'cancelled', graceMs: 5000 });
  expect(await reported(daemon, 'fail')).toMatchObject([
    { task: 't1', fence: 1, error: { message: expect.stringContaining('cancelled') } },
  ]);
  daemon.peer.send({ op: 'cancel', task: 't2', fence: 2, reason: 'deadline', graceMs: 5000 });
  expect(await reported(daemon, 'complete')).toEqual([{ task: 't2', fence: 2, result: 'deadline' }]);
});

test('what is not in holdings after a resume has ended; what is, goes on', async () => {
  const gate = deferred();
  const aborted: string[] = [];
  const { daemon, sb, push } = await working(
    async ({ task }, { signal }) => {
      signal.addEventListener('abort', () => aborted.push(`${task} ${signal.reason.reason}`));
      await gate.promise;
      return task;
    },
    { concurrency: 3 },
  );
  push(pushed('t1', 1), pushed('t2', 2), pushed('t3', 3));
  await sb.ping();
  const row = (task: string, fence: number): object => ({
    lease: `task:${task}`,
    kind: 'task',
    name: task,
    state: 'held',
    fence,
    queue: 'q',
  });
  daemon.holdings = [
    row('t1', 1),
    row('t3', 33),
    row('unseen', 9),
    { lease: 'lock:l', kind: 'lock', name: 'l', state: 'held', fence: 4 },
  ];
  daemon.peer.cut();
  expect(await reported(daemon, 'release')).toEqual([
    { task: 't3', fence: 33, reason: 'undelivered' },
    { task: 'unseen', fence: 9, reason: 'undelivered' },
  ]);
  gate.resolve();
  expect(await reported(daemon, 'complete')).toEqual([{ task: 't1', fence: 1, result: 't1' }]);
  expect(aborted).toEqual(['t2 revoked', 't3 revoked']);
});

test('tasks for a worker that is not there are given back', async () => {
  const { daemon } = await working(() => {});
  daemon.peer.send({ op: 'tasks', worker: 'nobody', tasks: [pushed('t1', 1)] });
  expect(await reported(daemon, 'release')).toEqual([{ task: 't1', fence: 1, reason: 'undelivered' }]);
});
