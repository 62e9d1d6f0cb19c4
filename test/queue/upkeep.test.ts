import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';
import { checkAtRest } from './at-rest.js';
import {
  claim,
  claimOne,
  complete,
  dataOf,
  drain,
  fail,
  freshQueue,
  lose,
  put,
  putMany,
  stats,
  useWorld,
  watch,
} from './support.js';

const { daemon, current } = useWorld({ 'session.graceMs': 40 });

async function pages(wire: Wire, op: string, params: Any, field: 'tasks' | 'count'): Promise<Any[]> {
  const all: Any[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await wire.call(op, { ...params, ...(cursor === undefined ? {} : { cursor }) });
    all.push(page[field]);
    cursor = page.cursor;
    if (cursor === undefined) return all;
  }
}
const listed = async (wire: Wire, params: Any): Promise<string[]> =>
  (await pages(wire, 'queue.list', params, 'tasks')).flat().map(({ task }) => task);

test('list goes through every state page by page, filtered, in order, without payloads', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.expired']);
  const queue = freshQueue();
  const names = (state: string, count = 25): string[] =>
    Array.from({ length: count }, (_, i) => `${queue}/${state}/${i}`);
  const made = (state: string, more: Any = {}, count = 25): Promise<Any[]> =>
    put(
      wire,
      queue,
      ...names(state, count).map((task, i) => ({
        payload: 'p'.repeat(2000),
        metadata: { i, long: 'm'.repeat(1500) },
        task,
        ...more,
        ...(i % 5 === 0 ? { kind: 'fifth', tenant: 'five' } : {}),
      })),
    );
  const take = async (): Promise<Any[]> => {
    const tasks: Any[] = [];
    while (tasks.length < 25) tasks.push(...(await claim(wire, queue, { count: 25 - tasks.length })));
    return tasks;
  };
  await made('completed');
  await complete(wire, ...(await take()));
  await put(
    wire,
    queue,
    ...names('windowed').map((task, i) => ({
      payload: 1,
      task,
      key: task,
      ...(i % 5 === 0 ? { kind: 'fifth', tenant: 'five' } : {}),
    })),
  );
  await complete(wire, ...(await take()));
  await made('dead');
  await wire.call('queue.fail', {
    tasks: (await take()).map(({ task, fence }) => ({ task, fence, error: { message: 'm' }, retry: false })),
  });
  await made('cancelled');
  await Promise.all(names('cancelled').map((task) => wire.call('queue.cancel', { task })));
  await made('expired', { startByMs: 1 });
  await watcher.until(() => watcher.events().length === 25);
  await made('active');
  const active = await take();
  await made('scheduled', { delayMs: 60_000 });
  await made('ready');
  const expected: Record<string, string[]> = {
    completed: [...names('completed'), ...names('windowed')],
    dead: names('dead'),
    cancelled: names('cancelled'),
    expired: names('expired'),
    active: names('active'),
    scheduled: names('scheduled'),
    ready: names('ready'),
    blocked: [],
  };
  for (const [state, all] of Object.entries(expected)) {
    for (const limit of [1, 7, 1000]) {
      if (limit === 1 && state !== 'ready') continue;
      const found = await listed(wire, { queue, state, limit });
      if (['ready', 'scheduled'].includes(state)) expect(found, state).toEqual(all);
      expect([...found].sort(), state).toEqual([...all].sort());
    }
    const fifth = await listed(wire, { queue, state, kind: 'fifth', tenant: 'five', limit: 3 });
    expect(fifth.length, state).toBe(all.length / 5);
    expect(await listed(wire, { queue, state, kind: 'nothing' })).toEqual([]);
  }
  const [row] = (await wire.call('queue.list', { queue, state: 'dead', limit: 1 })).tasks;
  expect(row).toMatchObject({
    state: 'dead',
    error: { message: 'm' },
    kind: 'fifth',
    tenant: 'five',
    metadata: { long: 'm'.repeat(1500) },
  });
  for (const field of ['payload', 'result', 'saved', 'progress', 'history']) expect(row[field]).toBeUndefined();
  await complete(wire, ...active);
  const counts = await pages(wire, 'queue.purge', { queue }, 'count');
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(50);
});

test('purge takes thousands page by page, by filter too, and says so in one event a task', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.removed', 'queue.purged']);
  const queue = freshQueue();
  await putMany(wire, queue, 1200, { kind: 'gone' });
  await putMany(wire, queue, 300, { tenant: 'stays' }, `${queue}/stays`);
  await putMany(wire, queue, 100, { kind: 'gone', delayMs: 60_000 }, `${queue}/later`);
  const counts = await pages(wire, 'queue.purge', { queue, filter: { kind: 'gone' } }, 'count');
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(1300);
  expect(counts.length).toBeGreaterThan(5);
  expect(await stats(wire, queue)).toMatchObject({
    depth: 300,
    states: { ready: 300, scheduled: 0 },
    tenants: [{ tenant: 'stays', waiting: 300, active: 0 }],
    kinds: [{ kind: '' }],
  });
  await watcher.until(() => watcher.events().filter(({ event }) => event.type === 'task.removed').length === 1300);
  expect(watcher.events()[0].event.data).toEqual({
    queue,
    task: expect.any(String),
    tenant: 'default',
    kind: 'gone',
    state: 'ready',
    reason: 'purged',
  });
  expect(
    watcher
      .events()
      .filter(({ event }) => event.type === 'queue.purged')
      .reduce((sum, { event }) => sum + event.data.count, 0),
  ).toBe(1300);
  // Finished ones when asked for, running ones never.
  const running = await claimOne(wire, queue);
  await pages(wire, 'queue.purge', { queue }, 'count');
  expect((await stats(wire, queue)).states).toMatchObject({ active: 1, ready: 0 });
  await complete(wire, running);
  expect(await wire.call('queue.purge', { queue, state: 'completed' })).toEqual({ count: 1 });
  expect((await wire.refused('queue.get', { task: running.task })).code).toBe('NOT_FOUND');
});

test('R9, R20: finished tasks are kept by age and by count; the overflow of the dead letter is an event', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.removed']);
  const queue = freshQueue();
  await wire.call('queue.configure', {
    queue,
    keep: { completed: { ageMs: 600, count: 10 }, dead: { ageMs: 60_000, count: 5 } },
  });
  await putMany(wire, queue, 30);
  await drain(wire, queue);
  await watcher.until(() => watcher.events().length >= 20);
  for (const { event } of watcher.events().slice(0, 20))
    expect(event.data).toMatchObject({ queue, state: 'completed', reason: 'overflow' });
  await watcher.until(() => watcher.events().length === 30);
  expect(
    watcher
      .events()
      .slice(20)
      .every(({ event }) => event.data.reason === 'retention'),
  ).toBe(true);
  await putMany(wire, queue, 9, { maxAttempts: 1 }, `${queue}/dead`);
  for (let i = 0; i < 9; i++) await fail(wire, await claimOne(wire, queue));
  await watcher.until(() => watcher.events().length === 34);
  expect(
    watcher
      .events()
      .slice(30)
      .map(({ event }) => [event.subject, event.data.state, event.data.reason]),
  ).toEqual([0, 1, 2, 3].map((i) => [`${queue}/dead/${i}`, 'dead', 'overflow']));
  expect((await stats(wire, queue)).states).toMatchObject({ dead: 5, completed: 0 });
  // Cancelled ones are kept like completed ones.
  await putMany(wire, queue, 12, {}, `${queue}/cancelled`);
  for (let i = 0; i < 12; i++) await wire.call('queue.cancel', { task: `${queue}/cancelled/${i}` });
  await watcher.until(() => watcher.events().length === 46);
  expect((await stats(wire, queue)).states).toMatchObject({ cancelled: 0, dead: 5 });
});

test('maxDepth bounds what waits: OVERLOADED with advice, pressure level 3, and room again with every end', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await wire.call('queue.configure', { queue, maxDepth: 5 });
  const send = (count: number, more: Any = {}): Promise<Any> =>
    wire.call('queue.enqueue', { queue, tasks: Array.from({ length: count }, (_, i) => ({ payload: i, ...more })) });
  expect((await send(3)).pressure).toEqual({ level: 0 });
  expect((await send(1, { delayMs: 60_000 })).pressure).toEqual({ level: 0 });
  const over = await send(3);
  expect(over.tasks.map((row: Any) => row.error?.code ?? row.state)).toEqual(['ready', 'OVERLOADED', 'OVERLOADED']);
  expect(over.tasks[1].error).toMatchObject({
    retry: true,
    afterMs: expect.any(Number),
    details: { scope: 'queue', depth: 5, maxDepth: 5 },
  });
  expect(over.pressure.level).toBe(3);
  expect(await stats(wire, queue)).toMatchObject({ depth: 4, maxDepth: 5, overloaded: true });
  // A caller that repeats itself finds its task although the queue is full.
  await wire.call('queue.purge', { queue, state: 'scheduled' });
  await put(wire, queue, { payload: 'mine', task: `${queue}/mine` });
  expect(await put(wire, queue, { payload: 'mine', task: `${queue}/mine` })).toEqual([
    { task: `${queue}/mine`, state: 'ready', deduplicated: true },
  ]);
  const running = await claimOne(wire, queue);
  expect((await send(2)).tasks.map((row: Any) => row.error?.code ?? row.state)).toEqual(['ready', 'OVERLOADED']);
  // What runs may always come back.
  await wire.call('queue.release', { tasks: [{ task: running.task, fence: running.fence, reason: 'r' }] });
  expect((await stats(wire, queue)).depth).toBe(6);
  expect((await drain(wire, queue)).length).toBe(6);
  expect((await send(1)).pressure).toEqual({ level: 0 });
  await drain(wire, queue);
});

test('batches of 1,000: enqueue, claim, complete, fail, release, purge by id', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const names = await putMany(wire, queue, 1000);
  const tasks: Any[] = [];
  while (tasks.length < 1000) tasks.push(...(await claim(wire, queue, { count: 100 })));
  const owned = tasks.map(({ task, fence }) => ({ task, fence }));
  const released = await wire.call('queue.release', { tasks: owned.map((item) => ({ ...item, reason: 'r' })) });
  expect(released.tasks).toEqual(Array(1000).fill({ state: 'ready' }));
  const again: Any[] = [];
  while (again.length < 1000) again.push(...(await claim(wire, queue, { count: 100 })));
  expect(again.map(({ task }) => task)).toEqual(names);
  expect(await complete(wire, ...again.slice(0, 500))).toEqual(Array(500).fill({ state: 'completed' }));
  const failed = await wire.call('queue.fail', {
    tasks: again.map(({ task, fence }) => ({ task, fence, error: { message: 'm' }, retry: false })),
  });
  expect(failed.tasks.map((row: Any) => row.error?.code ?? row.state)).toEqual([
    ...Array(500).fill('STALE_FENCE'),
    ...Array(500).fill('dead'),
  ]);
  expect((await wire.call('queue.redrive', { queue, tasks: names })).count).toBe(500);
  const purged = await wire.call('queue.purge', { queue, tasks: names });
  expect(purged.count).toBe(500);
});

test('Q29: after everything has ended, been kept and forgotten, no key is left that was not there before', async () => {
  const world = current();
  const client = world.redis.client();
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.>']);
  // What this session and this file's queues left is settled first.
  const keep = { completed: { ageMs: 0, count: 0 }, dead: { ageMs: 0, count: 0 } };
  const before = await client.dbsize();
  const queues = Array.from({ length: 5 }, () => freshQueue());
  for (const queue of queues) {
    await wire.call('queue.configure', { queue, keep, keyWindowMs: 1 });
    await put(
      wire,
      queue,
      ...Array.from({ length: 60 }, (_, i) => ({
        payload: i,
        tenant: `t${i % 7}`,
        task: `${queue}/${i}`,
        maxAttempts: 1,
        ...(i % 3 ? { kind: `k${i % 5}` } : {}),
        ...(i % 2 ? { key: `key ${i}` } : {}),
        ...(i % 11 === 0 ? { delayMs: 20 } : {}),
        ...(i % 13 === 0 ? { deadlineMs: 30, leaseMs: 20, timeoutMs: 30 } : {}),
      })),
    );
    const dies = await daemon().session({ ttlMs: 1000 });
    const [first] = await claim(dies, queue, { count: 1 });
    await lose(dies, watcher, first.task, 'task.dead');
    for (let i = 0; i < 20; i++) {
      const [task] = await claim(wire, queue);
      if (!task) break;
      if (i % 4 === 0) await fail(wire, task);
      else if (i % 4 === 1) await wire.call('queue.cancel', { task: task.task, graceMs: 1 });
      else await complete(wire, task);
    }
    await wire.call('queue.purge', { queue, filter: { tenant: 't3' } });
  }
  for (const queue of queues) {
    await until(async () => {
      await drain(wire, queue);
      const { states } = await stats(wire, queue);
      return Object.values(states).every((count) => count === 0);
    });
  }
  // A minute later the rates are forgotten; a configured queue stays, so these are made plain ones.
  for (const queue of queues) {
    const fields = (await client.hkeys(`sb:{default}:counts:${queue}`)).filter((field) => field.startsWith('r'));
    if (fields.length > 0) await client.hdel(`sb:{default}:counts:${queue}`, ...fields);
    await client.hdel(`sb:{default}:queue:${queue}`, 'configured');
  }
  for (const queue of queues) await until(async () => (await client.keys(`*${queue}*`)).length === 0);
  await checkAtRest(world.redis);
  // Sessions that were cut live to their deadline.
  await until(async () => (await client.dbsize()) <= before);
  expect(dataOf(watcher, 'task.removed', `${queues[0]}/1`)).toBeDefined();
}, 60_000);
