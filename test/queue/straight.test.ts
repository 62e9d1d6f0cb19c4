import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import { claim, complete, freshQueue, put, stats, useWorld, watch } from './support.js';

const { daemon, current } = useWorld();
const keysOf = async (queue: string): Promise<string[]> =>
  (await current().redis.client().keys('sb:{default}:*')).filter((key) => key.includes(queue));

/** A worker that waits for up to `count` tasks, and knows that its queue is empty. */
async function waiting(queue: string, count: number, more: Any = {}) {
  const wire = await daemon().session();
  await wire.call('queue.claim', { queue, count: 1 });
  return { wire, got: claim(wire, queue, { count, waitMs: 10_000, ...more }) };
}

test('a new task that finds an idle worker never stands among those who wait; attempt, fence, events and counters are as ever', async () => {
  const queue = freshQueue();
  const watcher = await watch(daemon());
  const producer = await daemon().session();
  const { wire, got } = await waiting(queue, 1);
  await put(producer, queue, { payload: { n: 1 }, task: `${queue}/1`, kind: 'k', maxAttempts: 7, timeoutMs: 60_000 });
  const [task] = await got;
  expect(task).toMatchObject({
    task: `${queue}/1`,
    attempt: 1,
    maxAttempts: 7,
    kind: 'k',
    payload: { n: 1 },
    timeoutMs: 60_000,
  });
  expect((await keysOf(queue)).filter((key) => /:(lane|waiting|tenants|share|vtime):/.test(key))).toEqual([]);
  expect(await stats(producer, queue)).toMatchObject({ depth: 0, states: { ready: 0, active: 1 } });
  await watcher.event('task.claimed', `${queue}/1`);
  await complete(wire, task!);
  await watcher.event('task.completed', `${queue}/1`);
  const types = watcher
    .events()
    .filter(({ event }) => event.subject === `${queue}/1`)
    .map(({ event }) => event.type);
  expect(types).toEqual(['task.enqueued', 'task.claimed', 'task.completed']);
});

test('of one request with two priorities the more urgent task goes first, whatever stands first', async () => {
  const queue = freshQueue();
  const producer = await daemon().session();
  const { got } = await waiting(queue, 1);
  await put(
    producer,
    queue,
    { payload: 1, task: `${queue}/late`, priority: 10 },
    { payload: 1, task: `${queue}/soon`, priority: 90 },
  );
  expect((await got).map(({ task }) => task)).toEqual([`${queue}/soon`]);
});

test('a task that may not go holds back those behind it: order is what the lanes say', async () => {
  const queue = freshQueue();
  const producer = await daemon().session();
  const { got } = await waiting(queue, 3);
  await put(
    producer,
    queue,
    { payload: 1, task: `${queue}/0` },
    { payload: 1, task: `${queue}/1`, startByMs: 60_000 },
    { payload: 1, task: `${queue}/2` },
  );
  expect((await got).map(({ task }) => task)).toEqual([0, 1, 2].map((n) => `${queue}/${n}`));
});

test('a paused queue, an unwanted kind and a task that is not due yet go to nobody', async () => {
  const queue = freshQueue();
  const producer = await daemon().session();
  const { got } = await waiting(queue, 2, { kinds: ['wanted'] });
  await put(producer, queue, { payload: 1, task: `${queue}/other`, kind: 'other' });
  await put(producer, queue, { payload: 1, task: `${queue}/later`, kind: 'wanted', delayMs: 60_000 });
  await producer.call('queue.pause', { queue });
  await put(producer, queue, { payload: 1, task: `${queue}/paused`, kind: 'wanted' });
  expect(await stats(producer, queue)).toMatchObject({ states: { ready: 2, scheduled: 1, active: 0 } });
  await producer.call('queue.unpause', { queue });
  expect((await got).map(({ task }) => task)).toEqual([`${queue}/paused`]);
});
