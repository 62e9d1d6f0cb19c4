import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import { claimOne, complete, drain, freshQueue, get, put, stats, storyOf, useWorld, watch } from './support.js';

const { daemon } = useWorld({ 'queue.payloadBytes': 1000, 'queue.resultBytes': 1000 });
const owned = ({ task, fence }: Any): Any => ({ task, fence });
const codes = (rows: readonly Any[]): string[] => rows.map((row) => row.error?.code ?? row.state);

test('a result and the tasks that follow are one step, and the same again after a lost reply changes nothing', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const [queue, next] = [freshQueue(), freshQueue()];
  await put(wire, queue, { payload: 1, task: `${queue}/parent` });
  const parent = await claimOne(wire, queue);
  const request = {
    tasks: [{ ...owned(parent), result: 'split' }],
    enqueue: [
      {
        queue: next,
        tasks: [
          { payload: 1, task: `${queue}/c1` },
          { payload: 2, task: `${queue}/c2`, delayMs: 60_000 },
        ],
      },
      { queue, tasks: [{ payload: 3, task: `${queue}/c3`, key: 'k' }] },
    ],
  };
  expect(await wire.call('queue.complete', request)).toEqual({
    tasks: [{ state: 'completed' }],
    enqueued: [
      {
        tasks: [
          { task: `${queue}/c1`, state: 'ready' },
          { task: `${queue}/c2`, state: 'scheduled' },
        ],
      },
      { tasks: [{ task: `${queue}/c3`, state: 'ready' }] },
    ],
  });
  const again = await wire.call('queue.complete', request);
  expect(again.tasks).toEqual([{ state: 'completed' }]);
  expect(again.enqueued.flatMap(({ tasks }: Any) => tasks).map((row: Any) => [row.state, row.deduplicated])).toEqual([
    ['ready', true],
    ['scheduled', true],
    ['ready', true],
  ]);
  await watcher.event('task.enqueued', `${queue}/c3`);
  expect(storyOf(watcher, `${queue}/parent`)).toEqual(['enqueued', 'claimed', 'completed']);
  for (const child of ['c1', 'c2', 'c3']) expect(storyOf(watcher, `${queue}/${child}`)).toEqual(['enqueued']);
  const offsets = watcher
    .events()
    .filter(({ event }) => event.type === 'task.completed' || /\/c[123]$/.test(event.subject))
    .map(({ offset }) => offset);
  expect(offsets).toEqual([offsets[0], offsets[0] + 1, offsets[0] + 2, offsets[0] + 3]);
  await drain(wire, queue);
  await wire.call('queue.purge', { queue: next });
});

test('if one item is refused nothing is done: it says why, the others answer CONFLICT', async () => {
  const wire = await daemon().session();
  const [queue, full] = [freshQueue(), freshQueue()];
  await wire.call('queue.configure', { queue: full, maxDepth: 1 });
  await put(wire, full, { payload: 1 });
  await put(
    wire,
    queue,
    { payload: 1, task: `${queue}/a` },
    { payload: 2, task: `${queue}/b` },
    { payload: 3, task: `${queue}/taken`, key: 'taken' },
  );
  const [a, b] = [await claimOne(wire, queue), await claimOne(wire, queue)];
  const child = (more: Any = {}): Any => ({ payload: 1, task: `${queue}/child`, ...more });
  const before = await stats(wire, queue);
  const cases: [string, Any[], Any[], string, string[], string[]][] = [
    [
      'a stale fence',
      [owned(a), { ...owned(b), fence: 1 }],
      [child()],
      queue,
      ['CONFLICT', 'STALE_FENCE'],
      ['CONFLICT'],
    ],
    [
      'an unknown task',
      [{ task: 'nobody', fence: 1 }, owned(a)],
      [child()],
      queue,
      ['NOT_FOUND', 'CONFLICT'],
      ['CONFLICT'],
    ],
    ['one twice', [owned(a), owned(a)], [child()], queue, ['CONFLICT', 'CONFLICT'], ['CONFLICT']],
    ['a result too large', [{ ...owned(a), result: 'x'.repeat(1000) }], [child()], queue, ['TOO_LARGE'], ['CONFLICT']],
    [
      'a payload too large',
      [owned(a)],
      [child(), { payload: 'x'.repeat(1000), task: `${queue}/large` }],
      queue,
      ['CONFLICT'],
      ['CONFLICT', 'TOO_LARGE'],
    ],
    [
      'an id taken',
      [owned(a)],
      [child(), { payload: 'other', task: `${queue}/b` }],
      queue,
      ['CONFLICT'],
      ['CONFLICT', 'CONFLICT'],
    ],
    [
      'a key taken',
      [owned(a)],
      [child(), { payload: 'other', task: `${queue}/k`, key: 'taken' }],
      queue,
      ['CONFLICT'],
      ['CONFLICT', 'KEY_CONFLICT'],
    ],
    ['a full queue', [owned(a), owned(b)], [child()], full, ['CONFLICT', 'CONFLICT'], ['OVERLOADED']],
    [
      'fields that contradict',
      [owned(a)],
      [child({ delayMs: 1, runAt: '2030-01-01T00:00:00Z' })],
      queue,
      ['CONFLICT'],
      ['INVALID'],
    ],
  ];
  for (const [name, tasks, news, into, completions, enqueued] of cases) {
    const reply = await wire.call('queue.complete', { tasks, enqueue: [{ queue: into, tasks: news }] });
    expect([name, codes(reply.tasks), codes(reply.enqueued[0].tasks)]).toEqual([name, completions, enqueued]);
    expect((await wire.refused('queue.get', { task: `${queue}/child` })).code, name).toBe('NOT_FOUND');
    for (const task of [a, b])
      expect(await get(wire, task.task), name).toMatchObject({ state: 'active', fence: task.fence });
  }
  const after = await stats(wire, queue);
  expect({ ...after, oldestReadyMs: 0, rates: 0 }).toEqual({ ...before, oldestReadyMs: 0, rates: 0 });
  // What was refused may be asked for again, right this time; with a completion already made beside it.
  await complete(wire, a);
  const reply = await wire.call('queue.complete', {
    tasks: [owned(a), owned(b)],
    enqueue: [{ queue, tasks: [child(), { payload: 3, task: `${queue}/taken`, key: 'taken' }] }],
  });
  expect(reply).toEqual({
    tasks: [{ state: 'completed' }, { state: 'completed' }],
    enqueued: [
      {
        tasks: [
          { task: `${queue}/child`, state: 'ready' },
          { task: `${queue}/taken`, state: 'ready', deduplicated: true },
        ],
      },
    ],
  });
  await drain(wire, queue);
  await drain(wire, full);
});

test('more than 200 completions and new tasks in one step are LIMIT', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const tasks = Array.from({ length: 101 }, (_, i) => ({ task: `t${i}`, fence: 1 }));
  const news = Array.from({ length: 100 }, (_, i) => ({ payload: 1, task: `${queue}/${i}` }));
  expect(await wire.refused('queue.complete', { tasks, enqueue: [{ queue, tasks: news }] })).toMatchObject({
    code: 'LIMIT',
    details: { max: 200 },
  });
  await put(wire, queue, { payload: 1 });
  const parent = await claimOne(wire, queue);
  const many = await wire.call('queue.complete', {
    tasks: [owned(parent)],
    enqueue: [
      { queue, tasks: news },
      { queue, tasks: Array.from({ length: 99 }, (_, i) => ({ payload: 1, task: `${queue}/more/${i}` })) },
    ],
  });
  expect(many.enqueued.map(({ tasks }: Any) => tasks.length)).toEqual([100, 99]);
  expect((await drain(wire, queue)).length).toBe(199);
});

test('a refusal does not put the idle workers of the daemon to sleep, nor free the credit of who still holds', async () => {
  const wire = await daemon().session();
  const worker = await daemon().session();
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await put(wire, queue, { payload: 1, task: `${queue}/held` }, { payload: 1, task: `${queue}/next` });
  const [held] = await worker.tasksUntil(1);
  for (let i = 0; i < 10; i++) {
    const reply = await worker.call('queue.complete', {
      tasks: [owned(held)],
      enqueue: [{ queue, tasks: [{ payload: 'other', task: `${queue}/next` }] }],
    });
    expect(codes(reply.tasks)).toEqual(['CONFLICT']);
  }
  expect((await stats(wire, queue)).states).toMatchObject({ active: 1, ready: 1 });
  const more = await worker.call('queue.complete', {
    tasks: [owned(held)],
    enqueue: [{ queue, tasks: [{ payload: 1, task: `${queue}/third` }] }],
  });
  expect(codes(more.tasks)).toEqual(['completed']);
  for (let count = 2; count <= 3; count++) {
    await worker.tasksUntil(count);
    await complete(worker, worker.tasks()[count - 1]);
  }
});

test('complete with an empty enqueue is a complete', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1 });
  expect(await wire.call('queue.complete', { tasks: [owned(await claimOne(wire, queue))], enqueue: [] })).toEqual({
    tasks: [{ state: 'completed' }],
    enqueued: [],
  });
});
