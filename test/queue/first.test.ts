import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

test('a task goes from enqueue to a worker and its result back', async () => {
  const { daemon } = world;
  const producer = await daemon.session({ agent: 'p' });
  const worker = await daemon.session({ agent: 'w' });
  const watcher = await daemon.wire();
  await watcher.call('feed.subscribe', { types: ['task.>'] });
  await worker.call('queue.work', { queue: 'docs', credit: 2, worker: 'w1' });
  const made = await producer.call('queue.enqueue', { queue: 'docs', tasks: [{ payload: { n: 1 }, task: 't1' }, { payload: [1], task: 't2' }, { payload: 'x', task: 't3' }] });
  expect(made.tasks.map((t: any) => t.state)).toEqual(['ready', 'ready', 'ready']);
  const tasks = await worker.tasksUntil(2);
  expect(tasks[0]).toMatchObject({ task: 't1', queue: 'docs', attempt: 1, maxAttempts: 3, payload: { n: 1 } });
  const done = await worker.call('queue.complete', { tasks: tasks.map((t: any) => ({ task: t.task, fence: t.fence, result: { ok: t.task } })) });
  expect(done.tasks).toEqual([{ state: 'completed' }, { state: 'completed' }]);
  await worker.tasksUntil(3);
  expect(await producer.call('queue.result', { task: 't1' })).toEqual({ state: 'completed', result: { ok: 't1' } });
  console.log(JSON.stringify(await producer.call('queue.get', { task: 't2' }), null, 1));
  console.log(JSON.stringify(await producer.call('queue.stats', { queue: 'docs' })));
  await watcher.event('task.claimed', 't3');
  console.log(watcher.events().map((e: any) => `${e.offset} ${e.event.type} ${e.event.subject}`));
});
