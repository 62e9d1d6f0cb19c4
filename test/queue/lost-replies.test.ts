import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import type { Any } from '../support/wire.js';
import {
  claim,
  claimOne,
  complete,
  drain,
  fail,
  freshQueue,
  get,
  put,
  putMany,
  release,
  stats,
  useWorld,
  watch,
} from './support.js';

const { daemon, current } = useWorld({ 'redis.commandTimeoutMs': 300, 'session.graceMs': 5000 }, [
  '--enable-debug-command',
  'yes',
]);

/**
 * Redis is stuck for a while and then carries out what it was sent, too late for whoever waits for the answer: a command
 * that is in its socket is carried out although its sender has hung up.
 */
async function late(act: () => Promise<unknown>): Promise<void> {
  const client = current().redis.client();
  await client.ping();
  const stuck = client.call('DEBUG', 'SLEEP', '1.5');
  await new Promise((resolve) => setTimeout(resolve, 100));
  await act();
  await stuck;
  client.disconnect();
  // The daemon may have hung up; it is back when it answers a read.
  const reader = await daemon().wire();
  await until(() => reader.call('queue.stats', { queue: 'any' }).catch(() => false));
}

test('Q3: a claim whose reply was lost is given back, refunded; what the session held before is untouched', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.>']);
  const queue = freshQueue();
  const names = await putMany(wire, queue, 4);
  const before = await claimOne(wire, queue);
  await late(async () => {
    const began = performance.now();
    expect(['TIMEOUT', 'UNAVAILABLE']).toContain((await wire.refused('queue.claim', { queue, count: 2 })).code);
    expect(performance.now() - began).toBeLessThan(1500);
  });
  const claimed = (): number => watcher.events().filter(({ event }) => event.type === 'task.claimed').length;
  const released = (): Any[] => watcher.events().filter(({ event }) => event.type === 'task.released');
  await watcher.until(() => claimed() === 3 && released().length === 2);
  for (const { event } of released()) expect(event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
  expect(await get(wire, names[1]!)).toMatchObject({ state: 'ready', attempt: 0, refunds: 1 });
  expect(await complete(wire, before)).toEqual([{ state: 'completed' }]);
  expect((await drain(wire, queue)).map(({ task }) => task)).toEqual(names.slice(1));
});

test('Q3: a worker never has two tasks for one credit after a lost reply, and goes on by itself', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await wire.call('queue.work', { queue, credit: 0, worker: 'w' });
  const names = await putMany(wire, queue, 5);
  await late(() => wire.call('queue.credit', { worker: 'w', credit: 1 }));
  await wire.tasksUntil(1);
  expect((await stats(wire, queue)).states).toMatchObject({ active: 1, ready: 4 });
  for (let i = 1; i <= 5; i++) {
    const tasks = await wire.tasksUntil(i);
    expect(tasks.length).toBe(i);
    await complete(wire, tasks[i - 1]);
  }
  expect(wire.tasks().map(({ task }) => task)).toEqual(names);
});

test('Q3: enqueue, complete and fail whose reply was lost are repeated under their names and done once', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.>']);
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: `${queue}/c` }, { payload: 1, task: `${queue}/f`, maxAttempts: 1 });
  const [c, f] = await claim(wire, queue, { count: 2 });
  const codes: string[] = [];
  await late(async () => {
    const calls = [
      put(wire, queue, { payload: 1, task: `${queue}/e`, key: 'k' }),
      complete(wire, { ...c, result: 'once' }),
      fail(wire, f),
    ];
    for (const { code } of await Promise.all(calls.map((call) => call.catch((error) => error)))) codes.push(code);
  });
  for (const code of codes) expect(code).toMatch(/^(TIMEOUT|UNAVAILABLE)$/);
  expect(await put(wire, queue, { payload: 1, task: `${queue}/e`, key: 'k' })).toMatchObject([{ state: 'ready' }]);
  expect(await complete(wire, { ...c, result: 'twice' })).toEqual([{ state: 'completed' }]);
  expect(await fail(wire, f)).toEqual({ state: 'dead' });
  // UNAVAILABLE is said of what was never sent only: then the second one was the first to be carried out.
  const { result } = await get(wire, c.task);
  expect(result).toBe(codes[1] === 'TIMEOUT' ? 'once' : 'twice');
  await watcher.event('task.dead', f.task);
  for (const type of ['task.completed', 'task.dead']) {
    expect(watcher.events().filter(({ event }) => event.type === type).length).toBe(1);
  }
  expect(watcher.events().filter(({ event }) => event.type === 'task.enqueued').length).toBe(3);
  await drain(wire, queue);
});

test('Q29 Redis full: enqueue is OVERLOADED and stores nothing; complete, fail, release and progress pass', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await putMany(wire, queue, 4, { backoff: { baseMs: 1, capMs: 1 } });
  const [a, b, c, d] = await claim(wire, queue, { count: 4 });
  const client = current().redis.client();
  await client.config('SET', 'maxmemory', '1mb');
  try {
    const [refused] = await put(wire, queue, { payload: 1 });
    expect(refused.error).toMatchObject({ code: 'OVERLOADED', retry: true, afterMs: expect.any(Number) });
    expect((await stats(wire, queue)).states).toMatchObject({ ready: 0, active: 4 });
    // Together with new tasks a completion is withheld, and says so; alone it passes.
    const follow = { queue, tasks: [{ payload: 2, task: `${queue}/next` }] };
    const both = { tasks: [{ task: a.task, fence: a.fence }], enqueue: [follow] };
    expect(await wire.call('queue.complete', both)).toMatchObject({
      tasks: [{ error: { code: 'CONFLICT' } }],
      enqueued: [{ tasks: [{ error: { code: 'OVERLOADED', retry: true, afterMs: expect.any(Number) } }] }],
    });
    expect(await complete(wire, a)).toEqual([{ state: 'completed' }]);
    expect((await fail(wire, b)).state).toMatch(/ready|scheduled/);
    expect(await release(wire, c)).toEqual({ state: 'ready' });
    expect(await wire.call('queue.progress', { task: d.task, fence: d.fence, progress: 1 })).toEqual({});
  } finally {
    await client.config('SET', 'maxmemory', '0');
  }
  expect(await put(wire, queue, { payload: 1 })).toMatchObject([{ state: 'ready' }]);
  await complete(wire, d);
  await until(async () => {
    await drain(wire, queue);
    return (await stats(wire, queue)).states.completed === 5;
  });
});
