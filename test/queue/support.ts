import { afterAll, beforeAll } from 'vitest';
import { type Settings, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';
import { checkAtRest } from './at-rest.js';

/** A Redis and a daemon for one test file; at its end every counter and set must equal a full enumeration. */
export function useWorld(
  settings: Settings = {},
  redisArgs: readonly string[] = [],
): { current: () => World; daemon: () => TestDaemon } {
  let world: World | undefined;
  const current = (): World => {
    if (!world) throw new Error('the world has not started');
    return world;
  };
  beforeAll(async () => {
    world = await startWorld(settings, redisArgs);
  });
  afterAll(async () => {
    try {
      if (world) await checkAtRest(world.redis);
    } finally {
      await world?.stop();
    }
  }, 60_000);
  return { current, daemon: () => current().daemon };
}

let queues = 0;
/** A queue of its own for a test. */
export const freshQueue = (): string => `q${process.pid}-${++queues}`;

export async function put(wire: Wire, queue: string, ...tasks: Any[]): Promise<Any[]> {
  return (await wire.call('queue.enqueue', { queue, tasks })).tasks;
}

/** `count` tasks named `<queue>/0`, `<queue>/1` … in as many requests as it takes. */
export async function putMany(
  wire: Wire,
  queue: string,
  count: number,
  task: Any = {},
  prefix = queue,
): Promise<string[]> {
  const names = Array.from({ length: count }, (_, i) => `${prefix}/${i}`);
  const calls: Promise<Any>[] = [];
  for (let i = 0; i < count; i += 1000) {
    calls.push(
      put(wire, queue, ...names.slice(i, i + 1000).map((name, j) => ({ payload: i + j, task: name, ...task }))),
    );
  }
  for (const rows of await Promise.all(calls)) {
    const wrong = rows.find((row: Any) => row.error);
    if (wrong) throw new Error(JSON.stringify(wrong));
  }
  return names;
}

/** Takes up to `count` tasks; with waitMs the first may still be on its way. */
export const claim = async (wire: Wire, queue: string, more: Any = {}): Promise<Any[]> =>
  (await wire.call('queue.claim', { queue, ...more })).tasks;

/** Exactly one task, which is there or comes. */
export async function claimOne(wire: Wire, queue: string, more: Any = {}): Promise<Any> {
  const [task] = await claim(wire, queue, { waitMs: 10_000, ...more });
  if (!task) throw new Error(`no task came in ${queue}`);
  return task;
}

/** Everything that is ready, in the order in which it is handed out. */
export async function drain(wire: Wire, queue: string): Promise<Any[]> {
  const all: Any[] = [];
  for (;;) {
    const tasks = await claim(wire, queue, { count: 100 });
    if (tasks.length === 0) return all;
    all.push(...tasks);
    await complete(wire, ...tasks);
  }
}

const owned = ({ task, fence }: Any): Any => ({ task, fence });
export const complete = async (wire: Wire, ...tasks: Any[]): Promise<Any[]> =>
  (
    await wire.call('queue.complete', {
      tasks: tasks.map((task) => ({ ...owned(task), ...(task.result === undefined ? {} : { result: task.result }) })),
    })
  ).tasks;
export const fail = async (wire: Wire, task: Any, more: Any = {}): Promise<Any> =>
  (await wire.call('queue.fail', { tasks: [{ ...owned(task), error: { message: 'no' }, ...more }] })).tasks[0];
export const release = async (wire: Wire, task: Any, more: Any = {}): Promise<Any> =>
  (await wire.call('queue.release', { tasks: [{ ...owned(task), reason: 'later', ...more }] })).tasks[0];
export const get = (wire: Wire, task: string): Promise<Any> => wire.call('queue.get', { task });
export const stats = async (wire: Wire, queue: string): Promise<Any> =>
  (await wire.call('queue.stats', { queue })).queues[0];

/** A watcher of all task and queue events from now on. */
export async function watch(
  daemon: TestDaemon,
  types: readonly string[] = ['task.>', 'queue.>'],
  where?: Any,
): Promise<Wire> {
  const wire = await daemon.wire();
  await wire.call('feed.subscribe', { types, ...(where ? { where } : {}) });
  return wire;
}

/** Types of the events about `subject` so far. */
export const storyOf = (watcher: Wire, subject: string): string[] =>
  watcher
    .events()
    .filter(({ event }) => event.subject === subject)
    .map(({ event }) => event.type.replace('task.', ''));
export const dataOf = (watcher: Wire, type: string, subject: string): Any =>
  watcher.events().find(({ event }) => event.type === type && event.subject === subject)?.event.data;

/** Ends a session by cutting its socket, and waits until what it held has gone back. */
export async function lose(wire: Wire, watcher: Wire, task: string, type = 'task.retried'): Promise<void> {
  const from = watcher.lines.length;
  wire.cut();
  await watcher.next(
    (line) => line.op === 'event' && line.event.type === type && line.event.subject === task,
    10_000,
    from,
  );
}

/** A small generator of repeatable numbers; tests print the seed they ran with. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
