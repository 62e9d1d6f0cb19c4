import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Defer } from '../../src/client/index.js';
import { until } from '../support/until.js';
import { deferred } from './fake-daemon.js';
import { client, queue, useDaemon } from './real.js';

useDaemon();

test('a task is pushed, run and answered', async () => {
  const sb = await client();
  const q = queue();
  sb.work<{ n: number }>(q, { concurrency: 4 }, ({ payload }) => payload.n * 2);
  const tasks = await Promise.all([1, 2, 3].map((n) => sb.enqueue(q, { n })));
  const results = await Promise.all(tasks.map(({ task }) => sb.result<number>(task)));
  expect(results).toEqual([2, 4, 6].map((result) => ({ state: 'completed', result })));
});

test('an item that the daemon refuses rejects alone, a malformed one as well', async () => {
  const sb = await client();
  const q = queue();
  await sb.enqueue(q, 1, { key: 'k' });
  const calls = [
    sb.enqueue(q, 2, { key: 'k' }),
    sb.enqueue(q, 3),
    sb.enqueue(q, 4, { priority: 500 }),
    sb.enqueue(q, 1, { key: 'k' }),
  ];
  const [conflict, fine, malformed, same] = await Promise.allSettled(calls);
  expect(conflict).toMatchObject({ reason: { code: 'KEY_CONFLICT' } });
  expect(fine).toMatchObject({ value: { state: 'ready' } });
  expect(malformed).toMatchObject({ reason: { code: 'BAD_REQUEST' } });
  expect(same).toMatchObject({ value: { deduplicated: true } });
});

test('A6(a): a handler that always fails runs exactly maxAttempts times, and each error is recorded', async () => {
  const sb = await client();
  const q = queue();
  let runs = 0;
  sb.work(q, {}, () => {
    throw new Error(`no ${++runs}`);
  });
  const { task } = await sb.enqueue(q, 1, { maxAttempts: 3, backoff: { baseMs: 10, capMs: 20 } });
  expect(await sb.result(task)).toMatchObject({ state: 'dead', error: { message: 'no 3' } });
  expect(runs).toBe(3);
  const { history } = await sb.queue.get({ task });
  expect(
    history?.map(({ attempt, outcome, error }) => [attempt, outcome, (error as { message: string }).message]),
  ).toEqual([1, 2, 3].map((n) => [n, 'failed', `no ${n}`]));
});

test('A6(b): ten deferrals cost no attempt, and what was saved comes back', async () => {
  const sb = await client();
  const q = queue();
  const seen: unknown[] = [];
  sb.work(q, {}, ({ attempt, saved }) => {
    seen.push([attempt, saved]);
    if (seen.length <= 10) throw new Defer({ afterMs: 5, reason: 'rateLimited', saved: { tries: seen.length } });
    return 'at last';
  });
  const { task } = await sb.enqueue(q, 1);
  expect(await sb.result(task)).toEqual({ state: 'completed', result: 'at last' });
  expect(seen).toEqual([[1, undefined], ...Array.from({ length: 10 }, (_, i) => [1, { tries: i + 1 }])]);
});

test("A11: a task of many ttls runs once, with the session's lease or its own", async () => {
  const sb = await client({ ttlMs: 600 });
  const q = queue();
  const runs: number[] = [];
  sb.work(q, { concurrency: 2 }, async ({ attempt }, { progress }) => {
    runs.push(attempt);
    for (let i = 0; i < 4; i++) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      await progress({ i });
    }
    return attempt;
  });
  const tasks = await Promise.all([sb.enqueue(q, 1), sb.enqueue(q, 2, { leaseMs: 500 })]);
  for (const { task } of tasks) expect(await sb.result(task)).toEqual({ state: 'completed', result: 1 });
  expect(runs).toEqual([1, 1]);
});

test('cancel and revoke reach the handler with their reasons', async () => {
  const sb = await client();
  const q = queue();
  const seen: string[] = [];
  const started: (() => void)[] = [];
  const worker = sb.work(q, { concurrency: 2 }, async ({ task, attempt }, { signal }) => {
    if (attempt > 1) return 'again';
    started.shift()?.();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    seen.push(`${task} ${signal.reason.reason}`);
    return 'stopped';
  });
  await worker.ready;
  const running = new Promise<void>((resolve) => started.push(() => {}, resolve));
  await Promise.all([sb.enqueue(q, 1, { task: 'cancelled' }), sb.enqueue(q, 2, { task: 'revoked' })]);
  await running;
  await sb.queue.cancel({ task: 'cancelled' });
  await sb.lease.revoke({ lease: 'task:revoked', reason: 'test' });
  expect(await sb.result('cancelled')).toEqual({ state: 'completed', result: 'stopped' });
  expect(await sb.result('revoked')).toEqual({ state: 'completed', result: 'again' });
  expect(seen.sort()).toEqual(['cancelled cancelled', 'revoked revoked']);
});

test('R11: a pool that is scaled, or stopped, before it is known is known as that', async () => {
  const sb = await client();
  const q = queue();
  const gate = deferred();
  const pool = sb.pool(q, { size: 1 }, () => gate.promise);
  await pool.scale(4);
  const stopped = sb.work(q, {}, () => {});
  await stopped.stop();
  await Promise.all(Array.from({ length: 6 }, (_, n) => sb.enqueue(q, n)));
  await until(() => pool.running === 4);
  expect((await sb.queue.stats({ queue: q })).queues[0]?.states).toMatchObject({ active: 4, ready: 2 });
  gate.resolve();
});

test('R11: a pool that scales while it runs never runs more than its size, and drains the queue', async () => {
  const sb = await client();
  const q = queue();
  let [now, most, done] = [0, 0, 0];
  const enough = deferred();
  const all = deferred();
  const pool = sb.pool(q, { size: 1 }, async () => {
    most = Math.max(most, ++now);
    await enough.promise;
    await nextTurn();
    now--;
    if (++done === 300) all.resolve();
  });
  await Promise.all(Array.from({ length: 300 }, (_, n) => sb.enqueue(q, n)));
  await until(() => now === 1);
  expect(most).toBe(1);
  await pool.scale(20);
  await until(() => now === 20);
  expect(done).toBe(0);
  await pool.scale(2);
  enough.resolve();
  await until(() => now <= 2);
  expect(most).toBe(20);
  most = 0;
  await all.promise;
  expect(most).toBeLessThanOrEqual(2);
});

test('Q15: workers that are closed while their tasks end: what was acknowledged never runs again', async () => {
  const admin = await client({ agent: 'a2' });
  const q = queue();
  const acknowledged = new Map<string, number>();
  const rounds = 40;
  const tasks = await Promise.all(Array.from({ length: rounds * 3 }, (_, n) => admin.enqueue(q, n)));
  for (let round = 0; round < rounds; round++) {
    const sb = await client();
    const all = deferred();
    let started = 0;
    sb.work(q, { concurrency: 3 }, async ({ task }) => {
      if (++started === 3) all.resolve();
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
      acknowledged.set(task, (acknowledged.get(task) ?? 0) + 1);
      return task;
    });
    await all.promise;
    await sb.close();
  }
  await Promise.all(tasks.map(({ task }) => admin.result(task)));
  expect([...acknowledged.values()].every((runs) => runs === 1)).toBe(true);
  expect(acknowledged.size).toBe(rounds * 3);
});

test('a graceful stop hands back what does not end in time, refunded', async () => {
  const sb = await client();
  const admin = await client({ agent: 'a2' });
  const q = queue();
  const started = deferred();
  sb.work(q, {}, () => {
    started.resolve();
    return new Promise(() => {});
  });
  const { task } = await admin.enqueue(q, 1);
  await started.promise;
  await sb.close({ limitMs: 50 });
  expect(await admin.queue.get({ task })).toMatchObject({ state: 'ready', attempt: 0, refunds: 1 });
});
