import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type Any, Wire } from '../support/wire.js';
import {
  claim,
  claimOne,
  complete,
  dataOf,
  drain,
  fail,
  freshQueue,
  get,
  put,
  putMany,
  stats,
  storyOf,
  useWorld,
  watch,
} from './support.js';

const { daemon, current } = useWorld({ 'session.graceMs': 300, 'session.receiptMs': 150 });
const named = (tasks: readonly Any[]): string[] => tasks.map(({ task }) => task);

test('R10, R18: a worker has at most `credit` unfinished tasks; each end frees one; prefetch 1 is one at a time', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const names = await putMany(wire, queue, 30);
  const worker = await daemon().session();
  expect(await worker.call('queue.work', { queue, credit: 5, worker: 'five' })).toEqual({ worker: 'five' });
  await worker.tasksUntil(5);
  let unfinished = [...worker.tasks()];
  expect(named(unfinished)).toEqual(names.slice(0, 5));
  expect((await stats(wire, queue)).states).toMatchObject({ active: 5, ready: 25 });
  for (let done = 5; done < 30; done++) {
    const task = unfinished.shift();
    if (done % 3 === 0) await fail(worker, task, { retry: false });
    else await complete(worker, task);
    await worker.tasksUntil(done + 1);
    unfinished = [...unfinished, worker.tasks().at(-1)];
    expect(worker.tasks().length).toBe(done + 1);
    expect(unfinished.length).toBe(5);
  }
  await complete(worker, ...unfinished);
  expect(named(worker.tasks())).toEqual(names);
});

test('credit: raised it is used at once, lowered it holds back, 0 pauses; a credit of one worker is its own', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await putMany(wire, queue, 20);
  await wire.call('queue.work', { queue, credit: 0, worker: 'a' });
  expect(await wire.call('queue.credit', { worker: 'a', credit: 3 })).toEqual({ credit: 3 });
  await wire.tasksUntil(3);
  await wire.call('queue.credit', { worker: 'a', credit: 1 });
  await complete(wire, ...wire.tasks().slice(0, 2));
  const other = await daemon().session();
  await other.call('queue.work', { queue, credit: 2, worker: 'a' });
  await other.tasksUntil(2);
  await complete(wire, wire.tasks()[2]);
  await wire.tasksUntil(4);
  await wire.call('queue.credit', { worker: 'a', credit: 0 });
  await complete(wire, wire.tasks()[3]);
  // A round trip of another task is longer than a push would take.
  await complete(other, ...other.tasks());
  await other.tasksUntil(4);
  expect(wire.tasks().length).toBe(4);
  await other.call('queue.credit', { worker: 'a', credit: 0 });
  await complete(other, ...other.tasks().slice(2));
  expect((await stats(wire, queue)).states).toMatchObject({ active: 0 });
  await drain(wire, queue);
});

test('a worker declared again under its name goes on with what it holds: credit 10 is never 20', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await putMany(wire, queue, 60);
  const declare = (credit: number): Promise<Any> => wire.call('queue.work', { queue, credit, worker: 'again' });
  await Promise.all([declare(10), declare(10), declare(10)]);
  await wire.tasksUntil(10);
  await declare(10);
  expect((await stats(wire, queue)).states).toMatchObject({ active: 10, ready: 50 });
  await complete(wire, ...wire.tasks().slice(0, 4));
  await wire.tasksUntil(14);
  await declare(12);
  await wire.tasksUntil(16);
  expect((await stats(wire, queue)).states).toMatchObject({ active: 12, ready: 44 });
  // After a resume what it still holds counts, too.
  const { session, key } = wire.opened;
  wire.cut();
  const back = await daemon().wire();
  const resumed = await back.call('session.open', { agent: 'agent', resume: { session, key } });
  expect(resumed.holdings.length).toBe(12);
  await back.call('queue.work', { queue, credit: 12, worker: 'again' });
  await back.call('queue.credit', { worker: 'again', credit: 14 });
  await back.tasksUntil(2);
  expect((await stats(back, queue)).states).toMatchObject({ active: 14 });
  await back.call('queue.credit', { worker: 'again', credit: 0 });
  await complete(back, ...resumed.holdings.map(({ name, fence }: Any) => ({ task: name, fence })), ...back.tasks());
  await drain(back, queue);
});

test('workers with kinds get theirs, workers without get every kind', async () => {
  const wire = await daemon().session();
  const [a, b, any] = [await daemon().session(), await daemon().session(), await daemon().session()];
  const queue = freshQueue();
  await a.call('queue.work', { queue, credit: 10, kinds: ['a'], worker: 'w' });
  await b.call('queue.work', { queue, credit: 10, kinds: ['b', 'c'], worker: 'w' });
  await put(
    wire,
    queue,
    ...['a', 'b', 'c', 'd', undefined].map((kind) => ({ payload: kind ?? 'none', ...(kind ? { kind } : {}) })),
  );
  await a.tasksUntil(1);
  await b.tasksUntil(2);
  expect((await stats(wire, queue)).states).toMatchObject({ active: 3, ready: 2 });
  await any.call('queue.work', { queue, credit: 10, worker: 'w' });
  await any.tasksUntil(2);
  expect(any.tasks().map(({ payload }) => payload)).toEqual(['d', 'none']);
  expect([a.tasks()[0].payload, ...b.tasks().map(({ payload }) => payload)]).toEqual(['a', 'b', 'c']);
  for (const worker of [a, b, any]) await complete(worker, ...worker.tasks());
  expect(await wire.refused('queue.claim', { queue, kinds: Array(17).fill('x') })).toMatchObject({
    code: 'BAD_REQUEST',
  });
});

test('an idle worker is woken by whatever makes work ready: enqueue here and elsewhere, due, retry, release, redrive, unpause', async () => {
  const wire = await daemon().session();
  const other = await current().another({ 'sweep.everyMs': 20_000 });
  const there = await other.session();
  const worker = await other.session();
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  const runs = async (count: number): Promise<Any> => (await worker.tasksUntil(count, 5000)).at(-1);
  await put(wire, queue, { payload: 1, task: 'w-1', maxAttempts: 1 });
  await fail(worker, await runs(1));
  await put(there, queue, { payload: 1, task: 'w-2', backoff: { baseMs: 1, capMs: 1 } });
  await fail(worker, await runs(2));
  await complete(worker, await runs(3));
  await put(there, queue, { payload: 1, task: 'w-3', delayMs: 30 });
  await complete(worker, await runs(4));
  await wire.call('queue.redrive', { queue, tasks: ['w-1'] });
  await complete(worker, await runs(5));
  await wire.call('queue.pause', { queue });
  await put(there, queue, { payload: 1, task: 'w-4' });
  await wire.call('queue.unpause', { queue });
  const held = await runs(6);
  await worker.call('queue.release', { tasks: [{ task: held.task, fence: held.fence, reason: 'r' }] });
  await complete(worker, await runs(7));
  await worker.call('session.close');
  await other.stop();
});

test('queue.claim with waitMs waits for the first, answers none when the time is over, and takes `count` at once', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const began = performance.now();
  expect(await claim(wire, queue, { waitMs: 120 })).toEqual([]);
  expect(performance.now() - began).toBeGreaterThanOrEqual(115);
  const waiting = claim(wire, queue, { waitMs: 10_000, count: 3 });
  await put(wire, queue, ...[1, 2, 3, 4].map((payload) => ({ payload })));
  expect((await waiting).length).toBe(3);
  const many = await Promise.all(Array.from({ length: 50 }, () => claim(wire, queue, { waitMs: 60, count: 2 })));
  expect(many.flat().length).toBe(1);
  // The end of the wait and the arrival of a task race: never lost, never twice.
  for (let round = 0; round < 30; round++) {
    const racing = claim(wire, queue, { waitMs: 1 + (round % 5) });
    await put(wire, queue, { payload: round, task: `${queue}/race/${round}` });
    const tasks = [...(await racing), ...(await claim(wire, queue))];
    expect(named(tasks)).toEqual([`${queue}/race/${round}`]);
    await complete(wire, ...tasks);
  }
  const held = (await wire.call('lease.list', { session: wire.opened.session, kind: 'task' })).leases;
  expect(held.length).toBe(4);
  await complete(wire, ...held.map(({ name, fence }: Any) => ({ task: name, fence })));
});

test('a waiting claim ends with its socket, and a claim whose reply was not written is refunded', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  for (let round = 0; round < 20; round++) {
    const task = `${queue}/${round}`;
    const goes = await daemon().session({ agent: 'goes' });
    const reply = goes.call('queue.claim', { queue, waitMs: 30_000 }).catch(() => []);
    await goes.call('ping');
    // Cut just before, or just after, the task is there.
    if (round % 2 === 0) goes.cut();
    await put(wire, queue, { payload: 1, task });
    if (round % 2 === 1) goes.cut();
    await reply;
    const got = await claimOne(wire, queue);
    expect(got.task).toBe(task);
    const { history, refunds } = await get(wire, task);
    // Either it never had it, or the reply was written (charged when its session ends), or not (refunded).
    expect(history.map((row: Any) => row.outcome)).toEqual(
      refunds > 0 ? ['undelivered'] : history.length > 0 ? ['sessionLost'] : [],
    );
    await complete(wire, got);
    await watcher.event('task.completed', task);
  }
});

test('Q4: a push to a frozen worker goes back refunded after receiptMs, the worker is told when it thaws and works again', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  const frozen = new Wire(new WebSocket(daemon().url, 'signalbox.v1', { autoPong: false }));
  await frozen.next((line) => line.op === 'hello');
  await frozen.call('session.open', { agent: 'frozen', ttlMs: 60_000 });
  await frozen.call('queue.work', { queue, credit: 2, worker: 'w1' });
  await frozen.call('queue.work', { queue, credit: 2, worker: 'w2' });
  frozen.socket.pause();
  await put(wire, queue, ...[1, 2, 3, 4].map((payload) => ({ payload, task: `${queue}/${payload}` })));
  for (const n of [1, 2, 3, 4]) {
    await watcher.event('task.released', `${queue}/${n}`);
    expect(dataOf(watcher, 'task.released', `${queue}/${n}`)).toMatchObject({
      reason: 'undelivered',
      state: 'ready',
      attempt: 1,
    });
    expect(storyOf(watcher, `${queue}/${n}`)).toEqual(['enqueued', 'claimed', 'released']);
    expect(await get(wire, `${queue}/${n}`)).toMatchObject({ attempt: 0, refunds: 1, state: 'ready' });
  }
  // It thaws: it answers what it was sent meanwhile, and reads what it missed.
  frozen.socket.on('ping', (data) => frozen.socket.pong(data));
  frozen.socket.resume();
  const rows = await frozen.until(() => {
    const told = frozen.lines.filter((line) => line.op === 'revoked').flatMap((line) => line.tasks);
    return told.length === 4 && told;
  });
  expect(rows.map(({ task, reason }: Any) => [task, reason]).sort()).toEqual(
    [1, 2, 3, 4].map((n) => [`${queue}/${n}`, 'undelivered']),
  );
  // With its pong both workers are served again.
  await frozen.tasksUntil(8);
  expect(await complete(frozen, ...frozen.tasks().slice(4))).toEqual(Array(4).fill({ state: 'completed' }));
});

test('untouched until it is there: the largest payloads are delivered, lines are split, a claim takes what fits', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const payload = 'x'.repeat(256 * 1024 - 2);
  const metadata = 'm'.repeat(16 * 1024 - 2);
  for (let i = 0; i < 12; i += 3)
    await put(wire, queue, ...[i, i + 1, i + 2].map((n) => ({ payload, metadata, task: `${queue}/${n}` })));
  const first = await claim(wire, queue, { count: 100 });
  expect(first.length).toBe(3);
  expect(first.every((task) => task.payload === payload && task.metadata === metadata)).toBe(true);
  const worker = await daemon().session();
  await worker.call('queue.work', { queue, credit: 100, worker: 'w' });
  await worker.tasksUntil(9, 20_000);
  const lines = worker.lines.filter((line) => line.op === 'tasks');
  for (const line of lines) expect(Buffer.byteLength(JSON.stringify(line))).toBeLessThanOrEqual(1024 * 1024);
  expect(named([...first, ...worker.tasks()])).toEqual(Array.from({ length: 12 }, (_, i) => `${queue}/${i}`));
  for (const task of worker.tasks()) expect(task.attempt).toBe(1);
  for (const task of worker.tasks()) await complete(worker, { ...task, result: payload });
  expect((await get(wire, `${queue}/5`)).result).toBe(payload);
  await complete(wire, ...first);
});

test('one queue under load does not starve another on the same daemon', async () => {
  const wire = await daemon().session();
  const [busy, quiet] = [freshQueue(), freshQueue()];
  await putMany(wire, busy, 3000);
  const worker = await daemon().session();
  await worker.call('queue.work', { queue: busy, credit: 1000, worker: 'busy' });
  await worker.call('queue.work', { queue: quiet, credit: 10, worker: 'quiet' });
  await put(wire, quiet, { payload: 'quiet' });
  await worker.until(() => worker.tasks('quiet').length === 1);
  let done = 0;
  while (done < 3000) {
    await worker.until(() => worker.tasks('busy').length > done);
    const batch = worker.tasks('busy').slice(done, done + 1000);
    await complete(worker, ...batch);
    done += batch.length;
  }
  await complete(worker, ...worker.tasks('quiet'));
});

test('the attempts of a queue hold for what is claimed from it; unknown workers and claims leave nothing behind', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  for (let i = 0; i < 65; i++) {
    const declared = wire.call('queue.work', { queue, credit: 1, worker: `w${i}` });
    if (i < 64) await declared;
    else await expect(declared).rejects.toMatchObject({ code: 'LIMIT' });
  }
  await put(wire, queue, { payload: 1 });
  await wire.tasksUntil(1);
  await complete(wire, wire.tasks()[0]);
});
