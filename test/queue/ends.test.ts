import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import {
  claim,
  claimOne,
  complete,
  dataOf,
  fail,
  freshQueue,
  get,
  lose,
  put,
  release,
  storyOf,
  useWorld,
  watch,
} from './support.js';

const { daemon } = useWorld({ 'session.graceMs': 40, 'queue.cancelGraceMs': 250 });
const slow = { backoff: { baseMs: 60_000, capMs: 60_000 } };

test('cancel: waiting tasks at once, with the reason as the message; the key and the place are free', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: 'c-ready', key: 'k' },
    { payload: 1, task: 'c-later', delayMs: 60_000 },
    { payload: 1, task: 'c-retry', ...slow, priority: 90 },
  );
  await fail(wire, await claimOne(wire, queue));
  for (const task of ['c-ready', 'c-later', 'c-retry']) {
    expect(await wire.call('queue.cancel', { task, reason: 'no "need"' })).toEqual({ state: 'cancelled' });
    expect(await wire.call('queue.cancel', { task })).toEqual({ state: 'cancelled' });
    await watcher.event('task.cancelled', task);
    expect(dataOf(watcher, 'task.cancelled', task)).toMatchObject({ reason: 'cancelled', message: 'no "need"' });
    expect(await get(wire, task)).toMatchObject({ state: 'cancelled' });
  }
  expect(watcher.events().filter(({ event }) => event.type === 'task.cancelled').length).toBe(3);
  expect(await claim(wire, queue)).toEqual([]);
  expect(await put(wire, queue, { payload: 2, key: 'k', task: 'c-next' })).toEqual([
    { task: 'c-next', state: 'ready' },
  ]);
  await wire.call('queue.purge', { queue });
});

test('cancel of a running task: complete still counts within the grace, fail, release and a lost worker end it cancelled', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  const names = ['done', 'failed', 'released', 'lost', 'ignored'].map((name) => `cancel-${name}`);
  await put(wire, queue, ...names.map((task) => ({ payload: 1, task, key: task })));
  const lost = await daemon().session();
  const tasks: Record<string, Any> = {};
  for (const name of names) tasks[name] = await claimOne(name === 'cancel-lost' ? lost : wire, queue);
  for (const name of names) {
    expect(await wire.call('queue.cancel', { task: name, graceMs: name === 'cancel-ignored' ? 100 : 60_000 })).toEqual({
      state: 'active',
    });
    // A second cancel changes nothing and says nothing.
    expect(await wire.call('queue.cancel', { task: name, graceMs: 1 })).toEqual({ state: 'active' });
  }
  const push = await wire.next((line) => line.op === 'cancel' && line.task === 'cancel-done');
  expect(push).toEqual({
    op: 'cancel',
    task: 'cancel-done',
    fence: tasks['cancel-done'].fence,
    reason: 'cancelled',
    graceMs: 60_000,
  });
  expect(await complete(wire, { ...tasks['cancel-done'], result: 'in time' })).toEqual([{ state: 'completed' }]);
  expect(await fail(wire, tasks['cancel-failed'])).toEqual({ state: 'cancelled' });
  expect(await fail(wire, tasks['cancel-failed'])).toEqual({ state: 'cancelled' });
  expect(await release(wire, tasks['cancel-released'])).toEqual({ state: 'cancelled' });
  await lose(lost, watcher, 'cancel-lost', 'task.cancelled');
  await watcher.event('task.cancelled', 'cancel-ignored');
  const revoked = await wire.next((line) => line.op === 'revoked');
  expect(revoked.tasks).toEqual([
    { task: 'cancel-ignored', fence: tasks['cancel-ignored'].fence, reason: 'cancelled' },
  ]);
  expect((await complete(wire, tasks['cancel-ignored']))[0].error.code).toBe('STALE_FENCE');
  expect(await get(wire, 'cancel-done')).toMatchObject({ state: 'completed', result: 'in time' });
  for (const name of names.slice(1)) {
    expect(await get(wire, name)).toMatchObject({ state: 'cancelled' });
    expect(storyOf(watcher, name)).toEqual(['enqueued', 'claimed', 'cancelRequested', 'cancelled']);
    expect(dataOf(watcher, 'task.cancelled', name).reason).toBe('cancelled');
  }
  expect((await get(wire, 'cancel-failed')).history[0].outcome).toBe('failed');
  expect((await get(wire, 'cancel-lost')).history[0].outcome).toBe('sessionLost');
  expect((await get(wire, 'cancel-ignored')).history[0].outcome).toBe('cancelled');
  expect(await put(wire, queue, { payload: 2, key: 'cancel-failed', task: 'free' })).toMatchObject([
    { task: 'free', state: 'ready' },
  ]);
  await wire.call('queue.purge', { queue });
});

test('R19: startByMs: not claimed for the first time by then is expired; once claimed it no longer counts', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'started', startByMs: 1500, priority: 100 });
  const started = await claimOne(wire, queue);
  await put(
    wire,
    queue,
    { payload: 1, task: 's-ready', startByMs: 80, key: 'k' },
    { payload: 1, task: 's-later', startByMs: 80, delayMs: 60_000 },
  );
  for (const task of ['s-ready', 's-later']) {
    await watcher.event('task.expired', task);
    expect(dataOf(watcher, 'task.expired', task).reason).toBe('deadline');
    expect(await get(wire, task)).toMatchObject({ state: 'expired', attempt: 0 });
  }
  await release(wire, started);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const again = await claimOne(wire, queue);
  expect(again).toMatchObject({ task: 'started', attempt: 1 });
  await complete(wire, again);
  expect(await put(wire, queue, { payload: 2, key: 'k', task: 's-next' })).toMatchObject([{ state: 'ready' }]);
  await wire.call('queue.purge', { queue });
});

test('deadlineMs: a running task is asked to stop, and fenced out and expired after the grace', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  const acts: Record<string, (task: Any) => Promise<unknown>> = {
    'd-completes': async (task) => expect(await complete(wire, task)).toEqual([{ state: 'completed' }]),
    'd-fails': async (task) => expect(await fail(wire, task)).toEqual({ state: 'expired' }),
    'd-releases': async (task) => expect(await release(wire, task)).toEqual({ state: 'expired' }),
    'd-ignores': async (task) => {
      const revoked = await wire.next((line) => line.op === 'revoked');
      expect(revoked.tasks).toEqual([{ task: 'd-ignores', fence: task.fence, reason: 'deadline' }]);
      expect((await complete(wire, task))[0].error.code).toBe('STALE_FENCE');
    },
  };
  for (const [name, act] of Object.entries(acts)) {
    await put(wire, queue, { payload: 1, task: name, deadlineMs: 200 });
    const task = await claimOne(wire, queue);
    expect(task.deadlineAt).toMatch(/Z$/);
    const push = await wire.next((line) => line.op === 'cancel' && line.task === name);
    expect(push).toEqual({ op: 'cancel', task: name, fence: task.fence, reason: 'deadline', graceMs: 250 });
    await act(task);
  }
  for (const name of Object.keys(acts).slice(1)) {
    await watcher.event('task.expired', name);
    expect((await get(wire, name)).state).toBe('expired');
    expect(storyOf(watcher, name)).toEqual(['enqueued', 'claimed', 'cancelRequested', 'expired']);
    expect(dataOf(watcher, 'task.expired', name).reason).toBe('deadline');
  }
  expect((await get(wire, 'd-ignores')).history[0].outcome).toBe('deadline');
  expect((await get(wire, 'd-completes')).state).toBe('completed');
});

test('deadlineMs: waiting tasks expire, ready, delayed and backing off', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'w-backs off', deadlineMs: 400, ...slow });
  await fail(wire, await claimOne(wire, queue));
  await put(
    wire,
    queue,
    { payload: 1, task: 'w-ready', deadlineMs: 100 },
    { payload: 1, task: 'w-delayed', deadlineMs: 100, delayMs: 60_000 },
  );
  for (const name of ['w-ready', 'w-delayed', 'w-backs off']) {
    await watcher.event('task.expired', name);
    expect((await get(wire, name)).state).toBe('expired');
    expect(dataOf(watcher, 'task.expired', name).reason).toBe('deadline');
  }
});

test('a task too late is never handed out, even before a sweep has seen it', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, ...Array.from({ length: 300 }, () => ({ payload: 1, startByMs: 5 })), {
    payload: 1,
    task: 'in time',
  });
  await new Promise((resolve) => setTimeout(resolve, 10));
  const got = await claim(wire, queue, { count: 100, waitMs: 5000 });
  expect(got.map(({ task }) => task)).toEqual(['in time']);
  await complete(wire, ...got);
});

test('update in every state: priority, deadline, startBy and runAt of what has not ended', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: 'u-first' },
    { payload: 1, task: 'u-second' },
    { payload: 1, task: 'u-later', delayMs: 60_000 },
    { payload: 1, task: 'u-run', priority: 99 },
  );
  const running = await claimOne(wire, queue);
  expect(await wire.call('queue.update', { task: 'u-second', priority: 80 })).toMatchObject({
    task: 'u-second',
    priority: 80,
    state: 'ready',
  });
  expect(await wire.call('queue.update', { task: 'u-later', priority: 70 })).toMatchObject({
    state: 'scheduled',
    priority: 70,
  });
  expect(await wire.call('queue.update', { task: 'u-later', runAt: '2020-01-01T00:00:00Z' })).toMatchObject({
    state: 'ready',
    priority: 70,
  });
  const later = new Date(Date.now() + 300).toISOString();
  expect(await wire.call('queue.update', { task: 'u-first', runAt: later })).toMatchObject({
    state: 'scheduled',
    runAt: later,
  });
  expect(await wire.call('queue.update', { task: 'u-run', priority: 10, deadlineMs: 60_000 })).toMatchObject({
    state: 'active',
    priority: 10,
    deadlineAt: expect.any(String),
  });
  for (const field of [{ runAt: later }, { startByMs: 1000 }])
    expect(await wire.refused('queue.update', { task: 'u-run', ...field })).toMatchObject({
      code: 'CONFLICT',
      details: { state: 'active' },
    });
  expect((await claim(wire, queue, { count: 5 })).map(({ task }) => task)).toEqual(['u-second', 'u-later']);
  const first = await claimOne(wire, queue);
  expect(first.task).toBe('u-first');
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(later) - 5);
  await watcher.event('task.claimed', 'u-first');
  expect(storyOf(watcher, 'u-first')).toEqual(['enqueued', 'updated', 'ready', 'claimed']);
  expect(dataOf(watcher, 'task.updated', 'u-first')).toMatchObject({ runAt: later, state: 'scheduled' });
  // Nothing to change is no event.
  expect((await wire.call('queue.update', { task: 'u-first' })).state).toBe('active');
  await wire.call('queue.complete', { tasks: [running, first].map(({ task, fence }) => ({ task, fence })) });
  expect((await wire.refused('queue.update', { task: 'u-first', priority: 1 })).code).toBe('CONFLICT');
  expect(storyOf(watcher, 'u-first').filter((type) => type === 'updated').length).toBe(1);
  await wire.call('queue.update', { task: 'u-second', deadlineMs: 20 });
  await wire.next((line) => line.op === 'cancel' && line.task === 'u-second');
  await watcher.event('task.expired', 'u-second');
  await wire.call('queue.update', { task: 'u-later', deadlineMs: 60_000 });
  await complete(wire, await get(wire, 'u-later'));
});

test('update of a waiting task moves its deadline and startBy both ways', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: 'm-kept', deadlineMs: 400 },
    { payload: 1, task: 'm-cut', deadlineMs: 60_000 },
    { payload: 1, task: 'm-start' },
  );
  await wire.call('queue.update', { task: 'm-kept', deadlineMs: 60_000 });
  await wire.call('queue.update', { task: 'm-cut', deadlineMs: 20 });
  await wire.call('queue.update', { task: 'm-start', startByMs: 20 });
  await watcher.event('task.expired', 'm-cut');
  await watcher.event('task.expired', 'm-start');
  await new Promise((resolve) => setTimeout(resolve, 450));
  const kept = await claimOne(wire, queue);
  expect(kept.task).toBe('m-kept');
  await complete(wire, kept);
});
