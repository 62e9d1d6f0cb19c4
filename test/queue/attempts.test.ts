import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import {
  claim,
  claimOne,
  complete,
  dataOf,
  drain,
  fail,
  freshQueue,
  get,
  lose,
  put,
  putMany,
  release,
  stats,
  storyOf,
  useWorld,
  watch,
} from './support.js';

const { daemon, current } = useWorld({ 'session.graceMs': 40 });
const soon = { backoff: { baseMs: 1, capMs: 1 } };

test('A6a, R9: a handler that always fails runs exactly maxAttempts times, then the dead letter has every error', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'a6', ...soon });
  const fences: number[] = [];
  for (let attempt = 1; attempt <= 3; attempt++) {
    const task = await claimOne(wire, queue);
    expect(task).toMatchObject({ task: 'a6', attempt, maxAttempts: 3 });
    fences.push(task.fence);
    expect((await fail(wire, task, { error: { message: `no ${attempt}` } })).state).toMatch(
      attempt < 3 ? /ready|scheduled/ : 'dead',
    );
  }
  expect(await claim(wire, queue, { waitMs: 50 })).toEqual([]);
  const dead = await get(wire, 'a6');
  expect(dead).toMatchObject({ state: 'dead', attempt: 3, error: { message: 'no 3' } });
  expect(dead.history.map((row: Any) => [row.attempt, row.fence, row.outcome, row.error.message])).toEqual(
    fences.map((fence, i) => [i + 1, fence, 'failed', `no ${i + 1}`]),
  );
  expect((await wire.call('queue.list', { queue, state: 'dead' })).tasks).toMatchObject([
    { task: 'a6', error: { message: 'no 3' } },
  ]);
  expect(await stats(wire, queue)).toMatchObject({ depth: 0, states: { dead: 1, ready: 0, scheduled: 0, active: 0 } });
  await watcher.event('task.dead', 'a6');
  expect(storyOf(watcher, 'a6').filter((type) => type !== 'ready')).toEqual([
    'enqueued',
    'claimed',
    'retried',
    'claimed',
    'retried',
    'claimed',
    'dead',
  ]);
  expect(dataOf(watcher, 'task.dead', 'a6')).toMatchObject({
    reason: 'failed',
    attempt: 3,
    error: { message: 'no 3' },
  });
});

test('A6b: ten deferrals cost no attempt; the eleventh is charged, and dead if none is left', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: 'deferred' },
    { payload: 1, task: 'deferred once too often', maxAttempts: 1 },
  );
  for (let refunds = 0; refunds < 10; refunds++) {
    const [one, two] = [await claimOne(wire, queue), await claimOne(wire, queue)];
    expect([one.attempt, two.attempt]).toEqual([1, 1]);
    for (const task of [one, two])
      expect(await release(wire, task, { reason: 'rate limited', saved: refunds })).toEqual({ state: 'ready' });
    expect(await get(wire, 'deferred')).toMatchObject({ attempt: 0, refunds: refunds + 1, saved: refunds });
  }
  const [one, two] = [await claimOne(wire, queue), await claimOne(wire, queue)];
  expect(one).toMatchObject({ task: 'deferred', attempt: 1, saved: 9 });
  expect(await complete(wire, one)).toEqual([{ state: 'completed' }]);
  expect(await get(wire, 'deferred')).toMatchObject({ state: 'completed', attempt: 1, refunds: 10 });
  expect(await release(wire, two)).toEqual({ state: 'dead' });
  expect(await get(wire, two.task)).toMatchObject({ state: 'dead', attempt: 1, refunds: 10 });
  await watcher.event('task.dead', two.task);
  expect(dataOf(watcher, 'task.released', 'deferred')).toMatchObject({
    state: 'ready',
    reason: 'released',
    attempt: 1,
  });
  expect(dataOf(watcher, 'task.dead', two.task)).toMatchObject({ reason: 'released' });
});

test('a release beyond the refunds is charged while attempts are left', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'charged', maxAttempts: 2 });
  for (let i = 0; i < 11; i++) expect(await release(wire, await claimOne(wire, queue))).toEqual({ state: 'ready' });
  expect(await get(wire, 'charged')).toMatchObject({ attempt: 1, refunds: 10 });
  expect(await release(wire, await claimOne(wire, queue))).toEqual({ state: 'dead' });
});

test('Q9: nacks, lapses and a mix of them end in exactly one dead letter with its history; redrive begins anew', async () => {
  const producer = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  const mixes: Record<string, string[]> = {
    nack: ['failed', 'failed', 'failed'],
    lapse: ['leaseLapsed', 'leaseLapsed', 'leaseLapsed'],
    mix: ['failed', 'leaseLapsed', 'failed'],
    lost: ['sessionLost', 'failed', 'sessionLost'],
  };
  for (const [name, outcomes] of Object.entries(mixes)) {
    const key = `key of ${name}`;
    await put(producer, queue, { payload: name, task: name, key, ...soon });
    for (const [i, outcome] of outcomes.entries()) {
      const worker = await daemon().session({ agent: `${name} ${i}` });
      const task = await claimOne(worker, queue, outcome === 'leaseLapsed' ? { leaseMs: 30 } : {});
      const type = i < 2 ? 'task.retried' : 'task.dead';
      if (outcome === 'failed') await fail(worker, task);
      else if (outcome === 'sessionLost') await lose(worker, watcher, name, type);
      else
        await watcher.until(
          () =>
            watcher.events().filter(({ event }) => event.type === type && event.subject === name).length >
            (i < 2 ? i : 0),
        );
    }
    const dead = await get(producer, name);
    expect(dead).toMatchObject({ state: 'dead', attempt: 3, queue, payload: name });
    expect(dead.history.map((row: Any) => [row.outcome, row.holder.agent])).toEqual(
      outcomes.map((outcome, i) => [outcome, `${name} ${i}`]),
    );
    if (outcomes[2] !== 'failed') expect(dead.error.code).toBe('WORKER_LOST');
    expect(watcher.events().filter(({ event }) => event.type === 'task.dead' && event.subject === name).length).toBe(1);
    expect(await stats(producer, queue)).toMatchObject({ depth: 0, states: { active: 0, scheduled: 0 } });
    expect(await producer.call('queue.redrive', { queue, tasks: [name] })).toEqual({
      count: 1,
      tasks: [{ state: 'ready' }],
    });
    const back = await get(producer, name);
    expect(back).toMatchObject({ state: 'ready', attempt: 0, refunds: 0 });
    expect(back.history.length).toBe(3);
    expect([back.error, back.startedAt, back.endedAt, back.holder]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    const task = await claimOne(producer, queue);
    expect(task).toMatchObject({ task: name, attempt: 1 });
    await complete(producer, task);
  }
});

test('Q9: a daemon that restarts between two attempts changes nothing', async () => {
  const producer = await daemon().session();
  const queue = freshQueue();
  await put(producer, queue, { payload: 1, task: 'over a restart', backoff: { baseMs: 1, capMs: 1 } });
  const other = await current().another();
  const there = await other.session();
  await fail(there, await claimOne(there, queue));
  await other.stop();
  const second = await claimOne(producer, queue);
  expect(second).toMatchObject({ task: 'over a restart', attempt: 2 });
  await complete(producer, second);
});

test('Q10: a task that kills its worker runs three times, then is dead with WORKER_LOST; only what ran beside it is charged', async () => {
  const producer = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(producer, queue, { payload: 'poison', task: 'poison', priority: 100 });
  await put(producer, queue, { payload: 1, task: 'beside', priority: 90 });
  const waiting = await putMany(producer, queue, 9, { priority: 10 });
  for (let death = 1; death <= 3; death++) {
    const worker = await daemon().session();
    await worker.call('queue.work', { queue, credit: 2, worker: 'w' });
    const tasks = await worker.tasksUntil(2);
    expect(tasks.map(({ task, attempt }) => [task, attempt])).toEqual([
      ['poison', death],
      ['beside', death],
    ]);
    await lose(worker, watcher, 'poison', death < 3 ? 'task.retried' : 'task.dead');
  }
  expect(await get(producer, 'poison')).toMatchObject({
    state: 'dead',
    attempt: 3,
    error: { code: 'WORKER_LOST' },
    history: Array(3).fill({ outcome: 'sessionLost' }),
  });
  expect((await get(producer, 'beside')).attempt).toBe(3);
  for (const task of waiting)
    expect(await get(producer, task)).toMatchObject({ state: 'ready', attempt: 0, refunds: 0, history: [] });
  expect(
    watcher.events().filter(({ event }) => event.type === 'task.claimed' && event.subject === 'poison').length,
  ).toBe(3);
  expect((await drain(producer, queue)).map(({ task }) => task)).toEqual(waiting);
});

test('retry: false is dead at once, afterMs is never undercut, and back-off is jittered below its ceiling', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'final' });
  expect(await fail(wire, await claimOne(wire, queue), { retry: false })).toEqual({ state: 'dead' });
  expect(await get(wire, 'final')).toMatchObject({ state: 'dead', attempt: 1 });
  const names = await putMany(wire, queue, 60, {
    backoff: { baseMs: 200_000_000, capMs: 300_000_000 },
    maxAttempts: 9,
  });
  const delays: number[] = [];
  for (const name of names) {
    const at = Date.now();
    const result = await fail(wire, await claimOne(wire, queue), name === names[0] ? { afterMs: 250_000_000 } : {});
    delays.push(Date.parse(result.nextAt) - at);
  }
  expect(delays[0]).toBeGreaterThanOrEqual(249_999_000);
  expect(Math.max(...delays.slice(1))).toBeLessThanOrEqual(200_100_000);
  expect(new Set(delays.slice(1).map((delay) => Math.floor(delay / 20_000_000))).size).toBeGreaterThan(3);
  await wire.call('queue.purge', { queue, state: 'scheduled' });
});

test('complete, fail and release repeated under their fence answer as the first time; the other words are refused', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(
    wire,
    queue,
    ...['c', 'f', 'r'].map((name) => ({
      payload: 1,
      task: `again-${name}`,
      backoff: { baseMs: 60_000, capMs: 60_000 },
    })),
  );
  const [c, f, r] = await claim(wire, queue, { count: 3 });
  for (let i = 0; i < 3; i++) expect(await complete(wire, { ...c, result: i })).toEqual([{ state: 'completed' }]);
  expect((await get(wire, c.task)).result).toBe(0);
  const failed = await fail(wire, f, { afterMs: 60_000 });
  for (let i = 0; i < 3; i++) expect(await fail(wire, f, { afterMs: 1 })).toEqual(failed);
  for (let i = 0; i < 3; i++) expect(await release(wire, r, { afterMs: 60_000 })).toEqual({ state: 'scheduled' });
  expect((await fail(wire, c)).error.code).toBe('STALE_FENCE');
  expect((await release(wire, c)).error.code).toBe('STALE_FENCE');
  expect((await complete(wire, f))[0].error.code).toBe('STALE_FENCE');
  expect((await release(wire, f)).error.code).toBe('STALE_FENCE');
  expect((await fail(wire, r)).error.code).toBe('STALE_FENCE');
  // Twice in one batch is once, too.
  await put(wire, queue, { payload: 1, task: 'twice' });
  const twice = await claimOne(wire, queue);
  expect(await complete(wire, twice, twice)).toEqual([{ state: 'completed' }, { state: 'completed' }]);
  const last = await watcher.event('task.completed', 'twice');
  const counts = watcher
    .events()
    .filter((line) => line.offset <= last.offset && /completed|retried|released/.test(line.event.type));
  expect(counts.map(({ event }) => event.subject).sort()).toEqual(['again-c', 'again-f', 'again-r', 'twice']);
  await wire.call('queue.purge', { queue });
});

test('history keeps the last twenty attempts, with errors cut to 1 KiB, and exact fences', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'long', maxAttempts: 30, ...soon });
  const fences: number[] = [];
  for (let i = 0; i < 24; i++) {
    const task = await claimOne(wire, queue);
    fences.push(task.fence);
    await fail(wire, task, { error: { message: '€'.repeat(2000), code: 'LONG', data: 'x'.repeat(5000) } });
  }
  const { history, error } = await get(wire, 'long');
  expect(history.map((row: Any) => row.fence)).toEqual(fences.slice(-20));
  expect(history.map((row: Any) => row.attempt)).toEqual(Array.from({ length: 20 }, (_, i) => i + 5));
  for (const row of history) {
    expect(Buffer.byteLength(JSON.stringify(row.error))).toBeLessThanOrEqual(1024);
    expect(row.error.code).toBe('LONG');
  }
  expect(error.data.length).toBe(5000);
  await complete(wire, await claimOne(wire, queue));
  expect((await get(wire, 'long')).history.at(-1)).toMatchObject({ attempt: 25, outcome: 'completed' });
});

test('redrive by state and filter, page by page; expired ones forget what expired them', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await putMany(wire, queue, 450, { kind: 'k', maxAttempts: 1 });
  await putMany(wire, queue, 20, { tenant: 'other', maxAttempts: 1 }, `${queue}/other`);
  const tasks: Any[] = [];
  while (tasks.length < 470) tasks.push(...(await claim(wire, queue, { count: 100 })));
  await wire.call('queue.fail', { tasks: tasks.map(({ task, fence }) => ({ task, fence, error: { message: 'm' } })) });
  await put(wire, queue, { payload: 1, task: 'too late', startByMs: 1, deadlineMs: 5 });
  await watcher.event('task.expired', 'too late');
  expect((await stats(wire, queue)).states).toMatchObject({ dead: 470, expired: 1 });
  let count = 0;
  let pages = 0;
  for (let cursor: string | undefined; ; pages++) {
    const page = await wire.call('queue.redrive', { queue, filter: { kind: 'k' }, ...(cursor ? { cursor } : {}) });
    count += page.count;
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  expect(count).toBe(450);
  expect(pages).toBeGreaterThan(1);
  expect((await stats(wire, queue)).states).toMatchObject({ dead: 20, expired: 1, ready: 450 });
  expect((await wire.call('queue.redrive', { queue, state: 'expired' })).count).toBe(1);
  const back = await get(wire, 'too late');
  expect(back).toMatchObject({ state: 'ready', attempt: 0 });
  expect(back.deadlineAt).toBeUndefined();
  await watcher.event('task.redriven', 'too late');
  expect(dataOf(watcher, 'task.redriven', 'too late')).toMatchObject({
    state: 'ready',
    from: 'expired',
    queue,
    task: 'too late',
    tenant: 'default',
  });
  // A new place at the end: behind all that were brought back before it.
  expect((await drain(wire, queue)).map(({ task }) => task).at(-1)).toBe('too late');
});

test('redrive and purge by id answer each, a doubled one once', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: 'one', maxAttempts: 1, key: 'k' },
    { payload: 1, task: 'two' },
    { payload: 1, task: 'running', priority: 90 },
  );
  const running = await claimOne(wire, queue);
  await fail(wire, await claimOne(wire, queue));
  await put(wire, 'elsewhere', { payload: 1, task: 'elsewhere' });
  const redriven = await wire.call('queue.redrive', { queue, tasks: ['one', 'one', 'two', 'nobody', 'elsewhere'] });
  expect(redriven.count).toBe(1);
  expect(redriven.tasks.map((row: Any) => row.error?.code ?? row.state)).toEqual([
    'ready',
    'CONFLICT',
    'CONFLICT',
    'NOT_FOUND',
    'NOT_FOUND',
  ]);
  const purged = await wire.call('queue.purge', {
    queue,
    tasks: ['two', 'two', 'running', 'one', 'nobody', 'elsewhere'],
  });
  expect(purged.count).toBe(2);
  expect(purged.tasks.map((row: Any) => row.error?.code ?? row.state)).toEqual([
    'ready',
    'NOT_FOUND',
    'CONFLICT',
    'ready',
    'NOT_FOUND',
    'NOT_FOUND',
  ]);
  expect(await stats(wire, queue)).toMatchObject({
    depth: 0,
    states: { active: 1 },
    tenants: [{ waiting: 0, active: 1 }],
  });
  await complete(wire, running);
  await drain(wire, 'elsewhere');
});
