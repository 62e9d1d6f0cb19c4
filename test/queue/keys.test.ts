import { expect, test } from 'vitest';
import { claimOne, complete, fail, freshQueue, get, lose, put, useWorld, watch } from './support.js';

const { daemon } = useWorld({ 'session.graceMs': 40, 'queue.kindsMax': 2 });
const keyed = { payload: { same: 1 }, key: 'k' };
const other = { payload: { other: 2 }, key: 'k' };

test('R23, Q23: after success the key answers the first task until its window is over, kept whatever `keep` says', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const none = { ageMs: 0, count: 0 };
  await wire.call('queue.configure', { queue, keyWindowMs: 600, keep: { completed: none, dead: none } });
  const [{ task }] = (await put(wire, queue, keyed)) as [{ task: string }];
  const running = await claimOne(wire, queue);
  expect(await put(wire, queue, keyed)).toEqual([{ task, state: 'active', deduplicated: true }]);
  await complete(wire, { ...running, result: 42 });
  const until = Date.now() + 400;
  while (Date.now() < until) {
    expect(await put(wire, queue, keyed)).toEqual([{ task, state: 'completed', deduplicated: true }]);
    expect(await wire.call('queue.result', { task })).toEqual({ state: 'completed', result: 42 });
    expect(await put(wire, queue, other)).toMatchObject([{ error: { code: 'KEY_CONFLICT', details: { task } } }]);
    expect((await wire.call('queue.list', { queue, state: 'completed' })).tasks).toMatchObject([{ task, key: 'k' }]);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await new Promise((resolve) => setTimeout(resolve, 400));
  const [again] = await put(wire, queue, other);
  expect(again).toMatchObject({ state: 'ready' });
  expect(again.task).not.toBe(task);
  await complete(wire, await claimOne(wire, queue));
});

test('Q23: every other way the first task can end frees the key at once', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  const ends: Record<string, (task: string) => Promise<unknown>> = {
    'dead letter': async () => fail(wire, await claimOne(wire, queue), { retry: false }),
    cancel: (task) => wire.call('queue.cancel', { task }),
    'cancel while running': async (task) => {
      const running = await claimOne(wire, queue);
      await wire.call('queue.cancel', { task, graceMs: 60_000 });
      await fail(wire, running);
    },
    purge: () => wire.call('queue.purge', { queue }),
    'purge by id': (task) => wire.call('queue.purge', { queue, tasks: [task] }),
    expiry: async (task) => {
      await wire.call('queue.update', { task, deadlineMs: 1 });
      await watcher.event('task.expired', task);
    },
    'worker lost and no attempt left': async (task) => {
      const worker = await daemon().session();
      await claimOne(worker, queue);
      await lose(worker, watcher, task, 'task.dead');
    },
    'purge of a completed one in its window': async (task) => {
      await complete(wire, await claimOne(wire, queue));
      expect((await wire.call('queue.purge', { queue, state: 'completed' })).count).toBe(1);
      await watcher.event('task.removed', task);
    },
  };
  for (const [name, end] of Object.entries(ends)) {
    const [first] = await put(wire, queue, { ...keyed, maxAttempts: 1 });
    expect(first, name).toMatchObject({ state: 'ready' });
    expect(first.deduplicated, name).toBeUndefined();
    await end(first.task);
    const [second] = await put(wire, queue, { ...other, maxAttempts: 1 });
    expect(second.state, name).toBe('ready');
    expect(second.task, name).not.toBe(first.task);
    await wire.call('queue.purge', { queue });
  }
});

test('Q23: a refusal after the key was looked at leaves it free, also within one batch', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, kind: 'a', task: 'a' }, { payload: 1, kind: 'b', task: 'b' });
  const rows = await put(
    wire,
    queue,
    { ...keyed, kind: 'one too many' },
    { ...keyed, kind: 'one too many' },
    { ...keyed, kind: 'a' },
    { ...keyed, kind: 'a' },
  );
  expect(rows.map((row) => row.error?.code ?? row.state)).toEqual(['LIMIT', 'LIMIT', 'ready', 'ready']);
  expect(rows[3]).toEqual({ task: rows[2].task, state: 'ready', deduplicated: true });
  expect((await get(wire, rows[2].task)).key).toBe('k');
  await wire.call('queue.purge', { queue });
});

test('Q23: sweeps do not free the key of a task that runs long', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await wire.call('queue.configure', { queue, keyWindowMs: 50 });
  await put(wire, queue, { ...keyed, task: 'runs long' });
  const running = await claimOne(wire, queue, { leaseMs: 2000 });
  const until = Date.now() + 1500;
  while (Date.now() < until) {
    expect(await put(wire, queue, keyed)).toEqual([{ task: 'runs long', state: 'active', deduplicated: true }]);
    await wire.call('queue.progress', { task: 'runs long', fence: running.fence, progress: 1 });
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  await complete(wire, running);
});

test('a key is unique in its queue only, and compares the payload as bytes and nothing else', async () => {
  const wire = await daemon().session();
  const [one, two] = [freshQueue(), freshQueue()];
  const [a] = await put(wire, one, keyed);
  const [b] = await put(wire, two, keyed);
  expect(a.task).not.toBe(b.task);
  expect(
    await put(wire, one, {
      ...keyed,
      priority: 3,
      kind: 'x',
      metadata: {},
      maxAttempts: 9,
      delayMs: 5000,
      tenant: 't',
    }),
  ).toEqual([{ task: a.task, state: 'ready', deduplicated: true }]);
  const raw = wire.next((line) => line.id === 777_777);
  wire.send(
    `{"id":777777,"op":"queue.enqueue","params":{"queue":"${one}","tasks":[{"payload":{ "same":1},"key":"k"}]}}`,
  );
  expect((await raw).ok.tasks).toMatchObject([{ error: { code: 'KEY_CONFLICT' } }]);
  for (const queue of [one, two]) await wire.call('queue.purge', { queue });
});

test('keyWindowMs 0 frees the key with the completion; the window of a queue holds for what completes in it', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await wire.call('queue.configure', { queue, keyWindowMs: 0 });
  const [first] = await put(wire, queue, keyed);
  await complete(wire, await claimOne(wire, queue));
  const [second] = await put(wire, queue, keyed);
  expect(second.task).not.toBe(first.task);
  await complete(wire, await claimOne(wire, queue));
});

test('redrive under a taken key fails its item with KEY_CONFLICT, by id and by page', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { ...keyed, task: 'r-first', maxAttempts: 1 });
  await fail(wire, await claimOne(wire, queue));
  await put(wire, queue, { ...keyed, task: 'r-second', maxAttempts: 1 });
  expect((await wire.call('queue.redrive', { queue, tasks: ['r-first'] })).tasks).toMatchObject([
    { error: { code: 'KEY_CONFLICT', details: { task: 'r-second' } } },
  ]);
  expect(await wire.call('queue.redrive', { queue })).toMatchObject({ count: 0 });
  await fail(wire, await claimOne(wire, queue));
  // Two dead tasks of one key: the first that comes back has it.
  const both = await wire.call('queue.redrive', { queue, tasks: ['r-first', 'r-second'] });
  expect(both.tasks).toMatchObject([
    { state: 'ready' },
    { error: { code: 'KEY_CONFLICT', details: { task: 'r-first' } } },
  ]);
  expect(await put(wire, queue, keyed)).toEqual([{ task: 'r-first', state: 'ready', deduplicated: true }]);
  await wire.call('queue.purge', { queue });
});

test('task ids are unique in the namespace: the same again is deduplicated, anything else CONFLICT, whatever became of the first', async () => {
  const wire = await daemon().session();
  const [queue, elsewhere] = [freshQueue(), freshQueue()];
  expect(await put(wire, queue, { payload: 1, task: 'id' })).toEqual([{ task: 'id', state: 'ready' }]);
  expect(await put(wire, queue, { payload: 1, task: 'id', priority: 3 }, { payload: 2, task: 'id' })).toMatchObject([
    { task: 'id', state: 'ready', deduplicated: true },
    { error: { code: 'CONFLICT' } },
  ]);
  expect(await put(wire, elsewhere, { payload: 1, task: 'id' })).toMatchObject([{ error: { code: 'CONFLICT' } }]);
  const running = await claimOne(wire, queue);
  expect(await put(wire, queue, { payload: 1, task: 'id' })).toEqual([
    { task: 'id', state: 'active', deduplicated: true },
  ]);
  await complete(wire, running);
  expect(await put(wire, queue, { payload: 1, task: 'id' })).toEqual([
    { task: 'id', state: 'completed', deduplicated: true },
  ]);
  await wire.call('queue.purge', { queue, tasks: ['id'], state: 'completed' });
  expect(await put(wire, queue, { payload: 2, task: 'id' })).toEqual([{ task: 'id', state: 'ready' }]);
  // Twins within one batch.
  const rows = await put(
    wire,
    queue,
    { payload: 7, task: 'twin' },
    { payload: 7, task: 'twin' },
    { payload: 8, task: 'twin' },
    { payload: 9, key: 'kk' },
    { payload: 9, key: 'kk' },
    { payload: 10, key: 'kk' },
  );
  expect(rows.map((row) => row.error?.code ?? (row.deduplicated ? 'again' : row.state))).toEqual([
    'ready',
    'again',
    'CONFLICT',
    'ready',
    'again',
    'KEY_CONFLICT',
  ]);
  await wire.call('queue.purge', { queue });
});

test('one id and one key enqueued from forty connections at once make one task', async () => {
  const queue = freshQueue();
  const wires = await Promise.all(Array.from({ length: 20 }, () => daemon().session()));
  const rows = (
    await Promise.all(
      wires.flatMap((wire) => [put(wire, queue, keyed), put(wire, queue, { payload: 1, task: 'raced' })]),
    )
  ).flat();
  expect(new Set(rows.map(({ task }) => task)).size).toBe(2);
  expect(rows.filter((row) => !row.deduplicated).length).toBe(2);
  expect((await wires[0]!.call('queue.purge', { queue })).count).toBe(2);
  await Promise.all(wires.map((wire) => wire.close()));
});
