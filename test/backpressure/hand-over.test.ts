import { expect, test } from 'vitest';
import { complete, freshQueue, useWorld } from '../queue/support.js';
import type { Any, Wire } from '../support/wire.js';

// A level falls with the gauges only: here it stays where a test has brought it.
const { daemon } = useWorld({ 'sweep.everyMs': 60_000 });

const outcomes = (reply: Any): string[] => reply.tasks.map(({ state, error }: Any) => state ?? error.code);
const bounds = { low: 1, high: 2, critical: 3, minRate: 0, shedBelow: 25 };

/** A queue that has come to `depth` and was emptied by a worker, which waits for more. */
async function emptied(depth: number): Promise<{ queue: string; wire: Wire; worker: Wire; seen: () => Any[] }> {
  const [queue, wire, worker] = [freshQueue(), await daemon().session(), await daemon().session()];
  await wire.call('queue.configure', { queue, admission: bounds });
  await wire.call('queue.enqueue', { queue, tasks: Array.from({ length: depth }, () => ({ payload: 1 })) });
  await worker.call('queue.work', { queue, credit: 50 });
  await worker.until(() => worker.tasks().length === depth);
  return { queue, wire, worker, seen: () => worker.tasks().slice(depth) };
}

test.each([
  [2, ['OVERLOADED', 'ready', 'scheduled', 'ready'], ['urgent', 'usual']],
  [3, ['OVERLOADED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'], []],
])(
  'a worker that waits at level %i is handed what is admitted, and nothing that is shed, refused or delayed',
  async (depth, expected, taken) => {
    const { queue, wire, worker, seen } = await emptied(depth);
    const tasks = [
      { task: `${queue}-low`, priority: 10 },
      { task: `${queue}-urgent`, priority: 90 },
      { task: `${queue}-later`, delayMs: 60_000 },
      { task: `${queue}-usual` },
    ];
    const said: string[] = [];
    // One by one each would go straight to the worker; what is ready is there before the next is asked.
    for (const task of tasks) {
      const [state] = outcomes(await wire.call('queue.enqueue', { queue, tasks: [{ payload: 1, ...task }] }));
      said.push(state!);
      if (state === 'ready') await worker.until(() => seen().some((one) => one.task === task.task));
    }
    expect(said).toEqual(expected);
    expect(seen().map(({ task }) => task)).toEqual(taken.map((name) => `${queue}-${name}`));
    const { tasks: all } = await wire.call('queue.list', { queue, state: 'scheduled' });
    expect(all).toHaveLength(said.filter((state) => state === 'scheduled').length);
    for (const { task, fence } of worker.tasks()) await complete(worker, { task, fence });
    await wire.call('queue.purge', { queue, state: 'scheduled' });
  },
);
