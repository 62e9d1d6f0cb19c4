import { expect, test } from 'vitest';
import { claim, claimOne, complete, fail, freshQueue, get, put, release, stats, useWorld } from './support.js';

const { daemon } = useWorld();
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const anInstant = expect.stringMatching(instant);
const aFence = expect.any(Number);

test('R7: queue.get shows the whole record: payload, state, priority, instants, attempts, metadata, error, history', async () => {
  const wire = await daemon().session({ agent: 'worker one', tenant: 'acme' });
  const queue = freshQueue();
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  await put(wire, queue, {
    payload: { n: 1 },
    task: 'r7',
    key: 'k',
    priority: 80,
    kind: 'read',
    metadata: { a: [1] },
    traceparent,
    deadlineMs: 60_000,
    maxAttempts: 4,
    timeoutMs: 300_000,
    backoff: { baseMs: 1, capMs: 1 },
  });
  const fresh = {
    task: 'r7',
    queue,
    state: 'ready',
    kind: 'read',
    tenant: 'acme',
    priority: 80,
    payload: { n: 1 },
    metadata: { a: [1] },
    key: 'k',
    attempt: 0,
    maxAttempts: 4,
    refunds: 0,
    history: [],
    enqueuedAt: anInstant,
    deadlineAt: anInstant,
    traceparent,
  };
  expect(await get(wire, 'r7')).toEqual(fresh);
  const first = await claimOne(wire, queue);
  const { session } = wire.opened;
  const holder = { session, agent: 'worker one' };
  expect(await get(wire, 'r7')).toEqual({
    ...fresh,
    state: 'active',
    attempt: 1,
    fence: first.fence,
    holder,
    startedAt: anInstant,
  });
  await wire.call('queue.progress', { task: 'r7', fence: first.fence, progress: { at: 0.5 }, saved: [1, 2] });
  expect(await get(wire, 'r7')).toMatchObject({ progress: { at: 0.5 }, saved: [1, 2] });
  await fail(wire, first, { error: { message: 'boom', code: 'E1', data: { x: 1 } } });
  const error = { message: 'boom', code: 'E1', data: { x: 1 } };
  const row = {
    attempt: 1,
    fence: first.fence,
    holder,
    startedAt: anInstant,
    endedAt: anInstant,
    outcome: 'failed',
    error,
  };
  const failed = await get(wire, 'r7');
  expect(failed).toMatchObject({ attempt: 1, saved: [1, 2], error, history: [row] });
  expect(failed.progress).toBeUndefined();
  expect(failed.fence).toBeUndefined();
  const second = await claimOne(wire, queue);
  expect(second).toMatchObject({ attempt: 2, saved: [1, 2] });
  await complete(wire, { ...second, result: 'done' });
  const done = await get(wire, 'r7');
  expect(done).toEqual({
    ...fresh,
    state: 'completed',
    attempt: 2,
    fence: second.fence,
    holder,
    saved: [1, 2],
    result: 'done',
    startedAt: anInstant,
    endedAt: anInstant,
    history: [row, { ...row, attempt: 2, fence: second.fence, outcome: 'completed', error: undefined }],
  });
  expect(Date.parse(done.startedAt)).toBeGreaterThanOrEqual(Date.parse(done.enqueuedAt));
  expect(Date.parse(done.endedAt)).toBeGreaterThanOrEqual(Date.parse(done.startedAt));
});

test('enqueue answers id and state of each, and the pressure', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const made = await wire.call('queue.enqueue', {
    queue,
    tasks: [{ payload: null }, { payload: false, task: 'named', delayMs: 60_000 }, { payload: 0, delayMs: 0 }],
  });
  expect(made).toEqual({
    tasks: [
      { task: expect.stringMatching(/^\S{16}$/), state: 'ready' },
      { task: 'named', state: 'scheduled' },
      { task: expect.any(String), state: 'ready' },
    ],
    pressure: { level: 0 },
  });
  expect(await get(wire, 'named')).toMatchObject({ state: 'scheduled', runAt: anInstant });
  await wire.call('queue.purge', { queue });
});

test('a claim answers tasks as a worker needs them', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(
    wire,
    queue,
    {
      payload: '{"raw":1}',
      task: 'full',
      kind: 'k',
      metadata: {},
      leaseMs: 5000,
      timeoutMs: 6000,
      deadlineMs: 60_000,
      maxAttempts: 7,
    },
    { payload: [], task: 'plain' },
  );
  const tasks = await claim(wire, queue, { count: 5 });
  expect(tasks).toEqual([
    {
      task: 'full',
      queue,
      kind: 'k',
      payload: '{"raw":1}',
      attempt: 1,
      maxAttempts: 7,
      fence: aFence,
      leaseMs: 5000,
      timeoutMs: 6000,
      deadlineAt: anInstant,
      metadata: {},
    },
    { task: 'plain', queue, payload: [], attempt: 1, maxAttempts: 3, fence: aFence },
  ]);
  expect(await claim(wire, queue)).toEqual([]);
  await complete(wire, ...tasks);
});

test('complete, fail, release, progress, cancel, update answer what the contract says', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(
    wire,
    queue,
    ...['a', 'b', 'c', 'd'].map((name) => ({
      payload: 1,
      task: `s-${name}`,
      backoff: { baseMs: 60_000, capMs: 60_000 },
    })),
  );
  const [a, b, c, d] = await claim(wire, queue, { count: 4 });
  expect(await complete(wire, a)).toEqual([{ state: 'completed' }]);
  expect(await fail(wire, b, { afterMs: 50_000 })).toEqual({ state: 'scheduled', nextAt: anInstant });
  expect(await release(wire, c, { reason: 'not now' })).toEqual({ state: 'ready' });
  expect(await wire.call('queue.progress', { task: d.task, fence: d.fence, progress: 1 })).toEqual({});
  expect(await wire.call('queue.cancel', { task: 's-b' })).toEqual({ state: 'cancelled' });
  expect(await wire.call('queue.cancel', { task: 's-d', reason: 'no longer needed', graceMs: 60_000 })).toEqual({
    state: 'active',
  });
  expect(await wire.call('queue.cancel', { task: 's-a' })).toEqual({ state: 'completed' });
  expect(await wire.call('queue.update', { task: 's-c', priority: 90 })).toMatchObject({
    task: 's-c',
    priority: 90,
    state: 'ready',
    payload: 1,
  });
  expect(await wire.call('queue.result', { task: 's-a' })).toEqual({ state: 'completed' });
  expect(await fail(wire, d)).toEqual({ state: 'cancelled' });
  await wire.call('queue.purge', { queue });
});

test('configure answers the whole configuration, and fields left out stay as they are', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const plain = {
    queue,
    maxAttempts: 3,
    backoff: { kind: 'exponential', baseMs: 1000, capMs: 60_000, jitter: 'full' },
    keyWindowMs: 3_600_000,
    keep: { completed: { ageMs: 3_600_000, count: 10_000 }, dead: { ageMs: 604_800_000, count: 10_000 } },
  };
  expect(await wire.call('queue.configure', { queue })).toEqual(plain);
  const keep = { completed: { ageMs: 0, count: 0 }, dead: { ageMs: 1000, count: 5 } };
  const changed = await wire.call('queue.configure', {
    queue,
    maxAttempts: 5,
    timeoutMs: 9000,
    leaseMs: 4000,
    keyWindowMs: 0,
    keep,
    maxDepth: 10,
    backoff: { baseMs: 10 },
  });
  const all = {
    queue,
    maxAttempts: 5,
    timeoutMs: 9000,
    leaseMs: 4000,
    keyWindowMs: 0,
    keep,
    maxDepth: 10,
    backoff: { ...plain.backoff, baseMs: 10 },
  };
  expect(changed).toEqual(all);
  expect(await wire.call('queue.configure', { queue, maxDepth: 20 })).toEqual({ ...all, maxDepth: 20 });
  await put(wire, queue, { payload: 1, task: 'by default' });
  expect(await get(wire, 'by default')).toMatchObject({ maxAttempts: 5 });
  const task = await claimOne(wire, queue);
  expect(task).toMatchObject({ maxAttempts: 5, timeoutMs: 9000, leaseMs: 4000 });
  await complete(wire, task);
});

test('R22: stats tell states, bands, tenants, kinds, the oldest, depth, rates, pause and overload', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await wire.call('queue.configure', { queue, maxDepth: 9 });
  await put(wire, queue, { payload: 1, task: 'oldest', tenant: 'a' });
  await put(
    wire,
    queue,
    { payload: 1, priority: 100, tenant: 'a', kind: 'x' },
    { payload: 1, priority: 75, tenant: 'b', kind: 'x' },
    { payload: 1, priority: 25, tenant: 'b' },
    { payload: 1, priority: 0, tenant: 'c' },
    { payload: 1, delayMs: 60_000 },
  );
  const running = await claimOne(wire, queue, { kinds: ['x'] });
  await new Promise((resolve) => setTimeout(resolve, 30));
  const now = await stats(wire, queue);
  expect(now).toEqual({
    queue,
    states: { scheduled: 1, ready: 4, blocked: 0, active: 1, completed: 0, dead: 0, cancelled: 0, expired: 0 },
    bands: { critical: 0, high: 1, normal: 1, low: 1, background: 1 },
    tenants: [
      { tenant: 'b', waiting: 2, active: 0 },
      { tenant: 'a', waiting: 1, active: 1 },
      { tenant: 'c', waiting: 1, active: 0 },
    ],
    kinds: [
      { kind: 'x', waiting: 1, active: 1 },
      { kind: '', waiting: 3, active: 0 },
    ],
    oldestReadyMs: expect.any(Number),
    depth: 4,
    maxDepth: 9,
    overloaded: false,
    rates: { enqueued: 0.1, completed: 0, failed: 0 },
    paused: false,
  });
  expect(now.oldestReadyMs).toBeGreaterThanOrEqual(30);
  expect(now.oldestReadyMs).toBeLessThan(5000);
  await complete(wire, running);
  await put(wire, queue, ...Array(4).fill({ payload: 1 }));
  await wire.call('queue.pause', { queue });
  expect(await stats(wire, queue)).toMatchObject({
    depth: 8,
    overloaded: true,
    paused: true,
    rates: { enqueued: 0.17, completed: 0.02 },
  });
  expect((await wire.call('queue.purge', { queue, state: 'ready' })).count).toBe(8);
  expect(await wire.call('queue.purge', { queue })).toEqual({ count: 1 });
});

test('stats of all queues come a page at a time', async () => {
  const wire = await daemon().session();
  const names = Array.from({ length: 120 }, (_, i) => `page/${String(i).padStart(3, '0')}`);
  await Promise.all(names.map((queue) => wire.call('queue.pause', { queue })));
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await wire.call('queue.stats', { cursor });
    seen.push(...page.queues.map((row: { queue: string }) => row.queue));
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  expect(seen.filter((name) => name.startsWith('page/'))).toEqual(names);
  await Promise.all(names.map((queue) => wire.call('queue.unpause', { queue })));
});
