import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import {
  claim,
  claimOne,
  complete,
  drain,
  fail,
  freshQueue,
  get,
  lose,
  put,
  putMany,
  release,
  stats,
  useWorld,
  watch,
} from './support.js';

const { daemon } = useWorld({ 'session.graceMs': 40 });
const tasksOf = (tasks: readonly Any[]): string[] => tasks.map(({ task }) => task);

test('Q26a: a task handed back keeps its place and its attempts', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'job1' }, { payload: 1, task: 'job2' });
  const job1 = await claimOne(wire, queue);
  expect(await release(wire, job1, { afterMs: 100 })).toEqual({ state: 'scheduled' });
  await watcher.event('task.ready', 'job1');
  const both = await drain(wire, queue);
  expect(both.map(({ task, attempt }) => [task, attempt])).toEqual([
    ['job1', 1],
    ['job2', 1],
  ]);
});

test('Q26b: strict FIFO at the highest, lowest and default priority, 5,000 tasks each', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const names = { 100: [] as string[], 0: [] as string[], 50: [] as string[] };
  for (const priority of [0, 50, 100] as const)
    names[priority] = await putMany(wire, queue, 5000, { priority }, `${queue}/p${priority}`);
  expect(await stats(wire, queue)).toMatchObject({
    depth: 15_000,
    bands: { critical: 5000, normal: 5000, background: 5000 },
  });
  expect(tasksOf(await drain(wire, queue))).toEqual([...names[100], ...names[50], ...names[0]]);
}, 60_000);

test('Q26c: 6,000 tasks due in one millisecond keep their order', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const runAt = new Date(Date.now() + 5000).toISOString();
  const names = await putMany(wire, queue, 6000, { runAt });
  expect((await stats(wire, queue)).states).toMatchObject({ scheduled: 6000, ready: 0 });
  const got: string[] = [];
  while (got.length < names.length) {
    const tasks = await claim(wire, queue, { count: 100, waitMs: 10_000 });
    got.push(...tasksOf(tasks));
    await complete(wire, ...tasks);
  }
  expect(got).toEqual(names);
}, 60_000);

test('Q26d: a task that failed once starts again after its back-off, not behind the backlog', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.ready']);
  const queue = freshQueue();
  const names = await putMany(wire, queue, 3000, { backoff: { baseMs: 60, capMs: 60 } });
  expect((await fail(wire, await claimOne(wire, queue))).state).toMatch(/scheduled|ready/);
  if ((await get(wire, names[0]!)).state !== 'ready') await watcher.event('task.ready', names[0]);
  const [again] = await claim(wire, queue);
  expect(again).toMatchObject({ task: names[0], attempt: 2 });
  await complete(wire, again);
  for (let cursor: string | undefined; ; ) {
    cursor = (await wire.call('queue.purge', { queue, ...(cursor ? { cursor } : {}) })).cursor;
    if (cursor === undefined) break;
  }
});

test('the place is kept through release, retry, loss and revocation; a delayed task gets its place when it is due', async () => {
  const wire = await daemon().session();
  const lost = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: 'o-delayed', delayMs: 150 },
    ...[1, 2, 3, 4].map((n) => ({ payload: n, task: `o-${n}`, backoff: { baseMs: 1, capMs: 1 } })),
  );
  const [one, two, three] = [await claimOne(wire, queue), await claimOne(wire, queue), await claimOne(lost, queue)];
  await watcher.event('task.ready', 'o-delayed');
  await put(wire, queue, { payload: 1, task: 'o-last' });
  await lose(lost, watcher, three.task);
  await fail(wire, two);
  await release(wire, one);
  await watcher.until(() =>
    watcher
      .events()
      .some(
        ({ event }) =>
          event.subject === 'o-2' &&
          (event.type === 'task.ready' || event.data.state === 'ready') &&
          event.type !== 'task.enqueued',
      ),
  );
  expect(tasksOf(await drain(wire, queue))).toEqual(['o-1', 'o-2', 'o-3', 'o-4', 'o-delayed', 'o-last']);
});

test('priority is strict within a queue of one tenant, whatever the kinds', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const made = Array.from({ length: 200 }, (_, i) => ({
    payload: i,
    task: `${queue}/${i}`,
    priority: (i * 37) % 101,
    ...(i % 3 === 0 ? {} : { kind: `k${i % 5}` }),
  }));
  await put(wire, queue, ...made);
  const expected = [...made].sort((a, b) => b.priority - a.priority || a.payload - b.payload).map(({ task }) => task);
  expect(tasksOf(await drain(wire, queue))).toEqual(expected);
});
