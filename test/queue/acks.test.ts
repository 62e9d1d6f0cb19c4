import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import type { Any } from '../support/wire.js';
import { complete, drain, freshQueue, get, put, randomOf, stats, useWorld, watch } from './support.js';

const { daemon } = useWorld({ 'session.graceMs': 30 });

test('Q15: of 200 workers that stop right after sending complete, what was acknowledged never runs again and the rest runs once more', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1e6);
  console.info(`seed ${seed}`);
  const random = randomOf(seed);
  const producer = await daemon().session();
  const watcher = await watch(daemon(), ['task.claimed', 'task.completed', 'task.retried']);
  let acked = 0;
  let counted = 0;
  const round = async (number: number): Promise<void> => {
    const queue = freshQueue();
    const names = [0, 1, 2].map((i) => `${queue}/${i}`);
    await put(producer, queue, ...names.map((task) => ({ payload: 1, task })));
    const worker = await daemon().session({ agent: `w${number}` });
    await worker.call('queue.work', { queue, credit: 3, worker: 'w' });
    const tasks = await worker.tasksUntil(3);
    const acks = new Set<string>();
    for (const task of tasks) {
      await sleep(random() * 3);
      complete(worker, { ...task, result: `by ${number}` }).then(
        ([row]) => row.state === 'completed' && acks.add(task.task),
        () => undefined,
      );
    }
    await sleep(random() * 4);
    if (number % 2 === 0) worker.cut();
    else await worker.close();
    // What it did not complete comes back; a second worker finishes it.
    const second: string[] = [];
    await until(async () => {
      second.push(...(await drain(producer, queue)).map(({ task }) => task));
      const { states } = await stats(producer, queue);
      return states.completed === 3;
    });
    expect(new Set(second).size).toBe(second.length);
    for (const task of names) {
      const { result, attempt, state } = await get(producer, task);
      expect(state).toBe('completed');
      if (acks.has(task))
        expect([task, second.includes(task), result, attempt]).toEqual([task, false, `by ${number}`, 1]);
      else if (second.includes(task)) expect([result, attempt]).toEqual([undefined, 2]);
      else {
        expect([result, attempt]).toEqual([`by ${number}`, 1]);
        counted++;
      }
    }
    acked += acks.size;
  };
  for (let i = 0; i < 200; i += 10) await Promise.all(Array.from({ length: 10 }, (_, j) => round(i + j)));
  await watcher.until(() => watcher.events().filter(({ event }) => event.type === 'task.completed').length === 600);
  const claims = new Map<string, number>();
  for (const { event } of watcher.events())
    if (event.type === 'task.claimed') claims.set(event.subject, (claims.get(event.subject) ?? 0) + 1);
  expect(Math.max(...claims.values())).toBeLessThanOrEqual(2);
  console.info(
    `acknowledged ${acked}, counted without their answer ${counted}, run again ${[...claims.values()].filter((count) => count === 2).length}`,
  );
}, 60_000);

test('a close frame gives everything back at once, charged; a cut after the grace', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: `${queue}/closed` });
  for (const [end, outcome] of [
    ['close', 'sessionLost'],
    ['cut', 'sessionLost'],
  ] as const) {
    const worker = await daemon().session();
    await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
    await worker.tasksUntil(1);
    const from = watcher.lines.length;
    if (end === 'close') await worker.close();
    else worker.cut();
    const line: Any = await watcher.next(
      (one) => one.op === 'event' && one.event.type === 'task.retried',
      10_000,
      from,
    );
    expect(line.event.data).toMatchObject({ reason: outcome, state: 'ready' });
  }
  expect(await get(wire, `${queue}/closed`)).toMatchObject({ attempt: 2, refunds: 0 });
  await drain(wire, queue);
});
