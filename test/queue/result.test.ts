import { expect, test } from 'vitest';
import { WireFailure } from '../support/wire.js';
import { claimOne, complete, fail, freshQueue, put, useWorld } from './support.js';

const { daemon, current } = useWorld();

/** The answer of a waiting queue.result, and how long it took after `act`. */
async function answered(task: string, act: () => Promise<unknown>): Promise<unknown> {
  const waiter = await daemon().wire();
  const reply = waiter
    .call('queue.result', { task, waitMs: 60_000 })
    .catch((error: unknown) => (error instanceof WireFailure ? error.code : Promise.reject(error)));
  await waiter.call('ping');
  await act();
  const began = performance.now();
  const answer = await reply;
  expect(performance.now() - began).toBeLessThan(1000);
  return answer;
}

test('Q30e: waiting for a result always ends: done, dead, cancelled, expired, purged, removed by retention, never existed', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const make = async (task: string, more = {}): Promise<string> => {
    await put(wire, queue, { payload: 1, task, ...more });
    return task;
  };
  expect(
    await answered(await make('r-done'), async () =>
      complete(wire, { ...(await claimOne(wire, queue)), result: { a: 1 } }),
    ),
  ).toEqual({ state: 'completed', result: { a: 1 } });
  expect(await answered('r-done', async () => undefined)).toEqual({ state: 'completed', result: { a: 1 } });
  expect(
    await answered(await make('r-dead'), async () =>
      fail(wire, await claimOne(wire, queue), { retry: false, error: { message: 'no', code: 'X' } }),
    ),
  ).toEqual({ state: 'dead', error: { message: 'no', code: 'X' } });
  expect(await answered(await make('r-cancelled'), () => wire.call('queue.cancel', { task: 'r-cancelled' }))).toEqual({
    state: 'cancelled',
  });
  expect(
    await answered(await make('r-expired'), () => wire.call('queue.update', { task: 'r-expired', deadlineMs: 1 })),
  ).toEqual({ state: 'expired' });
  expect(await answered(await make('r-purged'), () => wire.call('queue.purge', { queue }))).toBe('NOT_FOUND');
  expect(await answered('r-never', async () => undefined)).toBe('NOT_FOUND');
  await wire.call('queue.purge', { queue, tasks: ['r-done'], state: 'completed' });
  expect(await answered('r-done', async () => undefined)).toBe('NOT_FOUND');
  // Retention 0: the waiter hears the result or that it is gone, whichever it still meets.
  await wire.call('queue.configure', {
    queue,
    keep: { completed: { ageMs: 0, count: 0 }, dead: { ageMs: 0, count: 0 } },
  });
  const last = await answered(await make('r-zero'), async () => complete(wire, await claimOne(wire, queue)));
  expect([JSON.stringify(last)]).toContain(last === 'NOT_FOUND' ? '"NOT_FOUND"' : '{"state":"completed"}');
});

test('without waitMs, and when the time is over, the present state is the answer', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'r-now' });
  expect(await wire.call('queue.result', { task: 'r-now' })).toEqual({ state: 'ready' });
  const began = performance.now();
  expect(await wire.call('queue.result', { task: 'r-now', waitMs: 100 })).toEqual({ state: 'ready' });
  expect(performance.now() - began).toBeGreaterThanOrEqual(95);
  const task = await claimOne(wire, queue);
  expect(await wire.call('queue.result', { task: 'r-now', waitMs: 20 })).toEqual({ state: 'active' });
  await complete(wire, { ...task, result: null });
  expect(await wire.call('queue.result', { task: 'r-now' })).toEqual({ state: 'completed', result: null });
});

test('many wait for one task, on two daemons; a retry does not end the wait', async () => {
  const wire = await daemon().session();
  const other = await current().another();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'r-many', backoff: { baseMs: 1, capMs: 1 } });
  const waiters = await Promise.all([...Array.from({ length: 20 }, () => daemon().wire()), other.wire(), other.wire()]);
  const replies = waiters.map((waiter) => waiter.call('queue.result', { task: 'r-many', waitMs: 60_000 }));
  await fail(wire, await claimOne(wire, queue));
  await complete(wire, { ...(await claimOne(wire, queue)), result: 'second' });
  expect(await Promise.all(replies)).toEqual(Array(22).fill({ state: 'completed', result: 'second' }));
  await other.stop();
});

test('the end and the call race: five hundred times none hangs', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const names = Array.from({ length: 500 }, (_, i) => `${queue}/${i}`);
  await put(wire, queue, ...names.map((task) => ({ payload: 1, task })));
  const waiter = await daemon().wire();
  const replies = names.map(async (task) => {
    const running = await claimOne(wire, queue);
    const [result] = await Promise.all([
      waiter.call('queue.result', { task: running.task, waitMs: 20_000 }),
      complete(wire, { ...running, result: running.task }),
    ]);
    expect([names.includes(task), result]).toEqual([true, { state: 'completed', result: running.task }]);
  });
  await Promise.all(replies);
});
