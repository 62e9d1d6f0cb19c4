import { expect, test } from 'vitest';
import { complete, fail, freshQueue, put, useWorld } from './support.js';

const { daemon } = useWorld({ 'queue.kindsMax': 3 });

/** Names of tasks that are dead, two of each kind. */
async function dead(kinds: readonly string[]): Promise<{ queue: string; names: string[] }> {
  const wire = await daemon().session();
  const queue = freshQueue();
  const names = kinds.flatMap((kind) => [`${queue}/${kind}/0`, `${queue}/${kind}/1`]);
  await put(wire, queue, ...names.map((task) => ({ payload: 1, task, kind: task.split('/')[1] })));
  for (const task of (await wire.call('queue.claim', { queue, count: 100 })).tasks)
    expect(await fail(wire, task, { retry: false })).toEqual({ state: 'dead' });
  await wire.close();
  return { queue, names };
}

test('a redrive brings no more kinds back than a queue may have: beyond, its items are LIMIT and stay dead', async () => {
  const wire = await daemon().session();
  const { queue, names } = await dead(['a', 'b', 'c']);
  await put(wire, queue, { payload: 1, kind: 'd' }, { payload: 1, kind: 'e' }, { payload: 1 });
  const { count, tasks } = await wire.call('queue.redrive', { queue, tasks: names });
  const limit = { error: expect.objectContaining({ code: 'LIMIT', details: { max: 3 } }) };
  expect(tasks).toEqual([{ state: 'ready' }, { state: 'ready' }, limit, limit, limit, limit]);
  expect(count).toBe(2);
  expect(await wire.call('queue.redrive', { queue })).toMatchObject({ count: 0 });
  const { kinds, states } = (await wire.call('queue.stats', { queue })).queues[0];
  expect(
    kinds
      .map(({ kind }: { kind?: string }) => kind)
      .filter(Boolean)
      .sort(),
  ).toEqual(['a', 'd', 'e']);
  expect(states).toMatchObject({ ready: 5, dead: 4 });
  // A worker without kinds sees them all; and when they are done there is room again.
  const ready = (await wire.call('queue.claim', { queue, count: 100 })).tasks;
  expect(ready).toHaveLength(5);
  await complete(wire, ...ready);
  expect(await wire.call('queue.redrive', { queue })).toMatchObject({ count: 4 });
  const back = (await wire.call('queue.claim', { queue, count: 100 })).tasks;
  expect(back).toHaveLength(4);
  await complete(wire, ...back);
});
