import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import {
  claim,
  complete,
  drain,
  freshQueue,
  put,
  putMany,
  randomOf,
  stats,
  storyOf,
  useWorld,
  watch,
} from './support.js';

const { daemon, current } = useWorld();

test('Q18: after the answer to a pause no task starts, however many completions claim their next; unpausing goes on in order', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1e6);
  console.info(`seed ${seed}`);
  const random = randomOf(seed);
  const wire = await daemon().session();
  const queue = freshQueue();
  const watcher = await watch(daemon(), ['task.claimed', 'queue.>'], { queue });
  const names = await putMany(wire, queue, 4000);
  const worker = await daemon().session();
  await worker.call('queue.work', { queue, credit: 4, worker: 'w' });
  // By the line and not by all lines so far: there are thousands.
  const got: Any[] = [];
  let read = 0;
  const fresh = (): Any[] => {
    const tasks = worker.lines.slice(read).flatMap((line) => (line.op === 'tasks' ? line.tasks : []));
    read = worker.lines.length;
    got.push(...tasks);
    return tasks;
  };
  let stopped = false;
  const running = (async () => {
    while (!stopped) {
      await worker.until(() => stopped || worker.lines.length > read);
      await Promise.all(fresh().map((task) => complete(worker, task)));
    }
  })();
  const rounds = 300;
  for (let round = 0; round < rounds && got.length < 3900; round++) {
    await new Promise((resolve) => setTimeout(resolve, random() * 3));
    await wire.call('queue.pause', { queue });
    const { active } = (await stats(wire, queue)).states;
    expect(active).toBeLessThanOrEqual(4);
    await wire.call('queue.unpause', { queue });
  }
  await wire.call('queue.pause', { queue });
  await worker.call('queue.credit', { worker: 'w', credit: 0 });
  await expect.poll(async () => (await stats(wire, queue)).states.active, { timeout: 10_000 }).toBe(0);
  stopped = true;
  await worker.call('ping');
  await running;
  // The log is the judge: between a pause and its end nothing is claimed.
  await watcher.until(() => watcher.events().at(-1)?.event.type === 'queue.paused');
  let paused = false;
  let pauses = 0;
  for (const { event } of watcher.events()) {
    if (event.type === 'queue.paused') pauses++;
    if (event.type === 'task.claimed') expect(paused, `${event.subject} was claimed in a pause`).toBe(false);
    else paused = event.type === 'queue.paused';
  }
  expect(pauses).toBeGreaterThan(20);
  await wire.call('queue.unpause', { queue });
  const rest = await drain(wire, queue);
  expect([...got, ...rest].map(({ task }) => task)).toEqual(names);
}, 60_000);

test('a pause with untilMs ends by itself; claims that wait through it get their task', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  await put(wire, queue, { payload: 1 });
  expect(await wire.call('queue.pause', { queue, untilMs: 250 })).toEqual({ paused: true });
  expect(await claim(wire, queue)).toEqual([]);
  const worker = await daemon().session();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await watcher.event('queue.unpaused', queue);
  await complete(worker, ...(await worker.tasksUntil(1)));
  const events = watcher.events().filter(({ event }) => event.subject === queue);
  expect(events.map(({ event }) => event.type)).toEqual(['queue.paused', 'queue.unpaused']);
  expect(Date.parse(events[1].event.time)).toBeGreaterThanOrEqual(Date.parse(events[0].event.data.until));
});

test('pause and unpause again change nothing and say nothing; a longer pause does', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  const queue = freshQueue();
  for (let i = 0; i < 3; i++) expect(await wire.call('queue.pause', { queue })).toEqual({ paused: true });
  await wire.call('queue.pause', { queue, untilMs: 60_000 });
  await wire.call('queue.pause', { queue });
  for (let i = 0; i < 3; i++) expect(await wire.call('queue.unpause', { queue })).toEqual({ paused: false });
  await put(wire, queue, { payload: 1, task: `${queue}/last` });
  await watcher.event('task.enqueued', `${queue}/last`);
  expect(storyOf(watcher, queue)).toEqual(['queue.paused', 'queue.paused', 'queue.paused', 'queue.unpaused']);
  await drain(wire, queue);
});

test('a pause holds on every daemon, and what is running when it comes may end', async () => {
  const wire = await daemon().session();
  const other = await current().another();
  const worker = await other.session();
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 2, worker: 'w' });
  await putMany(wire, queue, 5);
  await worker.tasksUntil(2);
  await wire.call('queue.pause', { queue });
  const ended: Any[] = await complete(worker, ...worker.tasks());
  expect(ended).toEqual([{ state: 'completed' }, { state: 'completed' }]);
  expect((await stats(wire, queue)).states).toMatchObject({ active: 0, ready: 3 });
  await wire.call('queue.unpause', { queue });
  await worker.tasksUntil(4);
  await complete(worker, ...worker.tasks().slice(2));
  await worker.tasksUntil(5);
  await complete(worker, worker.tasks()[4]);
  await other.stop();
});
