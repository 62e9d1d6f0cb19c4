import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Any, WireFailure } from '../support/wire.js';
import {
  claimOne,
  complete,
  dataOf,
  fail,
  freshQueue,
  get,
  put,
  release,
  storyOf,
  useWorld,
  watch,
} from './support.js';

const { daemon } = useWorld({ 'session.graceMs': 40 });

/** Every call a zombie may make about a task, and what each is answered. */
async function zombieCalls(zombie: Any, task: Any): Promise<Any[]> {
  const direct = (op: string, params: Any): Promise<Any> =>
    zombie
      .call(op, params)
      .catch((error: unknown) => (error instanceof WireFailure ? error.error : Promise.reject(error)));
  const items = [
    (await complete(zombie, { ...task, result: 'A' }))[0],
    await fail(zombie, task),
    await release(zombie, task),
  ];
  const lease = (await zombie.call('lease.renew', { leases: [{ lease: `task:${task.task}`, fence: task.fence }] }))
    .leases[0];
  return [...items, lease]
    .map((row) => row.error)
    .concat([await direct('queue.progress', { task: task.task, fence: task.fence, progress: 'A' })]);
}

test('Q13, A13: all calls of a zombie are refused with {yours, current}; the result and the lease of the new holder stay', async () => {
  const [a, b] = [await daemon().session({ agent: 'A' }), await daemon().session({ agent: 'B' })];
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(a, queue, { payload: 1, task: 'q13' });
  const first = await claimOne(a, queue, { leaseMs: 40 });
  await watcher.event('task.retried', 'q13');
  // Between the lapse and the next claim nobody holds it: the fence has moved on all the same.
  for (const error of await zombieCalls(a, first)) {
    expect(error).toMatchObject({ code: 'STALE_FENCE', details: { yours: first.fence } });
    expect(error.details.current).toBeGreaterThan(first.fence);
  }
  const second = await claimOne(b, queue, { leaseMs: 60_000 });
  expect(second).toMatchObject({ attempt: 2 });
  expect(second.fence).toBeGreaterThan(first.fence);
  const before = (await b.call('lease.list', { session: b.opened.session, kind: 'task' })).leases;
  // Variant: A completes between B's claim and B's first sign of life.
  for (const error of await zombieCalls(a, first))
    expect(error).toMatchObject({ code: 'STALE_FENCE', details: { yours: first.fence, current: second.fence } });
  expect((await b.call('lease.list', { session: b.opened.session, kind: 'task' })).leases).toEqual(before);
  await b.call('queue.progress', { task: 'q13', fence: second.fence, progress: 'B' });
  expect(await complete(b, { ...second, result: 'B' })).toEqual([{ state: 'completed' }]);
  for (const error of await zombieCalls(a, first))
    expect(error).toMatchObject({ code: 'STALE_FENCE', details: { yours: first.fence, current: second.fence } });
  expect(await get(b, 'q13')).toMatchObject({ state: 'completed', result: 'B', attempt: 2, holder: { agent: 'B' } });
  await watcher.event('task.completed', 'q13');
  expect(storyOf(watcher, 'q13')).toEqual(['enqueued', 'claimed', 'retried', 'claimed', 'progressed', 'completed']);
  expect(dataOf(watcher, 'task.retried', 'q13')).toMatchObject({
    reason: 'leaseLapsed',
    state: 'ready',
    attempt: 1,
    fence: first.fence,
    session: a.opened.session,
  });
});

test('A13: a session that ended under its open socket is refused by the fence, too, given on already or not', async () => {
  const a = await daemon().session({ agent: 'A' });
  const b = await daemon().session({ agent: 'B' });
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(b, queue, { payload: 1, task: 'ended' });
  const first = await claimOne(a, queue);
  await b.call('queue.pause', { queue });
  await b.call('lease.revoke', { lease: `session:${a.opened.session}`, reason: 'test' });
  await a.next((line) => line.op === 'lost' && line.kind === 'session');
  for (const error of await zombieCalls(a, first))
    expect(error).toMatchObject({ code: 'STALE_FENCE', details: { yours: first.fence } });
  await watcher.event('task.retried', 'ended');
  await b.call('queue.unpause', { queue });
  const second = await claimOne(b, queue);
  for (const error of await zombieCalls(a, first))
    expect(error).toMatchObject({ code: 'STALE_FENCE', details: { yours: first.fence, current: second.fence } });
  expect((await a.refused('queue.claim', { queue })).code).toBe('SESSION_LOST');
  expect(await complete(b, { ...second, result: 'B' })).toEqual([{ state: 'completed' }]);
});

test('A11: progress and lease.renew keep a lease of its own; a lapse is exactly one handover and the holder is told', async () => {
  const worker = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    worker,
    queue,
    { payload: 1, task: 'by progress' },
    { payload: 1, task: 'by renewal' },
    { payload: 1, task: 'silent' },
  );
  const [progress, renewal, silent] = [
    await claimOne(worker, queue, { leaseMs: 400 }),
    await claimOne(worker, queue, { leaseMs: 400 }),
    await claimOne(worker, queue, { leaseMs: 400 }),
  ];
  expect(silent.leaseMs).toBe(400);
  const until = Date.now() + 1500;
  let beats = 0;
  while (Date.now() < until) {
    await worker.call('queue.progress', { task: 'by progress', fence: progress.fence, progress: ++beats });
    const { leases } = await worker.call('lease.renew', {
      leases: [{ lease: 'task:by renewal', fence: renewal.fence }],
    });
    expect(Date.parse(leases[0].endsAt)).toBeGreaterThan(Date.now() + 200);
    await sleep(60);
  }
  await watcher.event('task.retried', 'silent');
  const revoked = await worker.next((line) => line.op === 'revoked');
  expect(revoked.tasks).toEqual([{ task: 'silent', fence: silent.fence, reason: 'leaseLapsed' }]);
  expect(worker.lines.filter((line) => line.op === 'revoked').length).toBe(1);
  expect(storyOf(watcher, 'silent')).toEqual(['enqueued', 'claimed', 'retried']);
  expect(await complete(worker, progress, renewal)).toEqual([{ state: 'completed' }, { state: 'completed' }]);
  for (const task of ['by progress', 'by renewal'])
    expect(await get(worker, task)).toMatchObject({ attempt: 1, state: 'completed' });
  const again = await claimOne(worker, queue);
  expect(again).toMatchObject({ task: 'silent', attempt: 2 });
  await complete(worker, again);
});

test('A11: timeoutMs fences an attempt out at once whatever keeps its lease, with revoked and a back-off', async () => {
  const worker = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(worker, queue, {
    payload: 1,
    task: 'timed',
    timeoutMs: 150,
    leaseMs: 5000,
    maxAttempts: 2,
    backoff: { baseMs: 1, capMs: 1 },
  });
  await worker.call('queue.work', { queue, credit: 1, worker: 'w', leaseMs: 9000 });
  for (const attempt of [1, 2]) {
    const [task] = (await worker.tasksUntil(attempt)).slice(-1);
    expect(task).toMatchObject({ attempt, timeoutMs: 150, leaseMs: 5000 });
    const beat = setInterval(
      () => worker.call('queue.progress', { task: 'timed', fence: task.fence, progress: 1 }).catch(() => undefined),
      40,
    );
    const line = await worker.next((line) => line.op === 'revoked' && line.tasks[0].fence === task.fence);
    clearInterval(beat);
    expect(line.tasks).toEqual([{ task: 'timed', fence: task.fence, reason: 'timedOut' }]);
    expect((await complete(worker, task))[0].error.code).toBe('STALE_FENCE');
  }
  expect(await get(worker, 'timed')).toMatchObject({
    state: 'dead',
    attempt: 2,
    error: { code: 'TIMEOUT' },
    history: [{ outcome: 'timedOut' }, { outcome: 'timedOut' }],
  });
  const told = await watcher.event('task.dead', 'timed');
  expect(told.event.data).toMatchObject({ reason: 'timedOut', attempt: 2 });
});

test('the lease of a task goes before the worker, the worker before the queue', async () => {
  const worker = await daemon().session();
  const queue = freshQueue();
  await worker.call('queue.configure', { queue, leaseMs: 30_000, timeoutMs: 40_000 });
  await put(
    worker,
    queue,
    { payload: 1, leaseMs: 10_000, priority: 60 },
    { payload: 1, priority: 55 },
    { payload: 1, timeoutMs: 50_000 },
  );
  const tasks = [
    await claimOne(worker, queue, { leaseMs: 20_000 }),
    await claimOne(worker, queue, { leaseMs: 20_000 }),
    await claimOne(worker, queue),
  ];
  expect(tasks.map(({ leaseMs, timeoutMs }) => [leaseMs, timeoutMs])).toEqual([
    [10_000, 40_000],
    [20_000, 40_000],
    [30_000, 50_000],
  ]);
  await complete(worker, ...tasks);
});

test('lease.revoke takes a running task away: charged, at once, in its old place', async () => {
  const worker = await daemon().session();
  const operator = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(worker, queue, { payload: 1, task: 'revoked' }, { payload: 1, task: 'behind' });
  const task = await claimOne(worker, queue);
  await operator.call('lease.revoke', { lease: 'task:revoked', reason: 'stuck' });
  expect((await worker.next((line) => line.op === 'revoked')).tasks).toEqual([
    { task: 'revoked', fence: task.fence, reason: 'revoked' },
  ]);
  await watcher.event('task.retried', 'revoked');
  expect(dataOf(watcher, 'task.retried', 'revoked')).toMatchObject({ reason: 'revoked', state: 'ready' });
  const again = await claimOne(operator, queue);
  expect(again).toMatchObject({ task: 'revoked', attempt: 2 });
  await complete(operator, again, await claimOne(operator, queue));
});

test('a holder that resumed and declared no worker is told of what is taken from it all the same', async () => {
  const worker = await daemon().session({ agent: 'A' });
  const queue = freshQueue();
  await put(worker, queue, { payload: 1, task: 'resumed', timeoutMs: 300 });
  const task = await claimOne(worker, queue);
  const { session, key } = worker.opened;
  const back = await daemon().wire();
  const resumed = await back.call('session.open', { agent: 'A', resume: { session, key } });
  expect(resumed.holdings).toMatchObject([{ lease: 'task:resumed', fence: task.fence }]);
  expect((await back.next((line) => line.op === 'revoked')).tasks).toEqual([
    { task: 'resumed', fence: task.fence, reason: 'timedOut' },
  ]);
  await back.call('queue.purge', { queue });
});
