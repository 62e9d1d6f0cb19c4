import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';
import { nearAndFar } from './near-and-far.js';
import { complete, fail, freshQueue, get, put, release } from './support.js';

/** A worker's credit is free when its task has ended, however its daemon learns of it. `near` goes through the proxy. */
const rig = nearAndFar();

async function working(more: Any = {}): Promise<{ worker: Wire; queue: string; task: Any }> {
  const worker = await rig.near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await put(rig.producer, queue, { payload: 1, task: `${queue}/0`, ...more });
  const [task] = await worker.tasksUntil(1);
  return { worker, queue, task };
}

async function getsAnother(worker: Wire, queue: string): Promise<void> {
  await put(rig.producer, queue, { payload: 1, task: `${queue}/next` });
  const next = (await worker.tasksUntil(2, 5000))[1];
  expect(next.task).toBe(`${queue}/next`);
  expect(await complete(worker, next)).toEqual([{ state: 'completed' }]);
}

const ends = { complete, fail, release } as const;
type End = keyof typeof ends;

/** Redis ends the attempt, and nobody here hears of it. */
async function endUnheard(worker: Wire, task: Any, end: End): Promise<void> {
  const gone = rig.proxy.swallowReply(task.task);
  const [outcome] = await Promise.allSettled([ends[end](worker, task), gone]);
  expect((outcome as Any).reason.code).toMatch(/^(TIMEOUT|UNAVAILABLE)$/);
  expect((await get(rig.producer, task.task)).state).not.toBe('active');
}

test.each(['complete', 'fail', 'release'] as const)(
  'Q3: a worker whose %s was carried out and not answered gets the next task, though it never asks again',
  async (end) => {
    const { worker, queue, task } = await working({ maxAttempts: 1 });
    // A task that is handed back comes again at once: it is its own next one.
    if (end === 'release') await rig.producer.call('queue.pause', { queue });
    await endUnheard(worker, task, end);
    if (end === 'release') {
      await rig.producer.call('queue.purge', { queue });
      await rig.producer.call('queue.unpause', { queue });
    }
    await getsAnother(worker, queue);
  },
);

test('Q3: a fail after a complete whose answer was lost is STALE_FENCE, and the credit is free', async () => {
  const { worker, queue, task } = await working();
  await endUnheard(worker, task, 'complete');
  let answer: Any;
  await until(async () => {
    answer = await fail(worker, task).catch(() => undefined);
    return answer;
  });
  expect(answer.error).toMatchObject({ code: 'STALE_FENCE', details: { yours: task.fence, current: task.fence } });
  await getsAnother(worker, queue);
});

test.each([true, false])(
  'of fail and complete of one task in one message the first counts, and the credit is free (fail first: %s)',
  async (failFirst) => {
    const { worker, queue, task } = await working({ maxAttempts: 1 });
    const { task: name, fence } = task;
    const lines = [
      { id: 901, op: 'queue.fail', params: { tasks: [{ task: name, fence, error: { message: 'no' } }] } },
      { id: 902, op: 'queue.complete', params: { tasks: [{ task: name, fence }], enqueue: [] } },
    ];
    if (!failFirst) lines.reverse();
    worker.send(lines.map((line) => JSON.stringify(line)).join('\n'));
    const answers = await Promise.all(lines.map((line) => worker.next(({ id }) => id === line.id)));
    expect(answers[0].ok.tasks[0].state).toBe(failFirst ? 'dead' : 'completed');
    expect(answers[1].ok.tasks[0].error.code).toBe('STALE_FENCE');
    await getsAnother(worker, queue);
  },
);
