import type { TestDaemon } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';

let names = 0;
/** Tests of a file share a world and run side by side: each has queues and agents of its own. */
export const unique = (word: string): string => `${word}-${process.pid}-${++names}`;

/** `count` tasks in a new queue; answers its name. */
export async function fill(wire: Wire, count: number, more: Any = {}): Promise<string> {
  const queue = unique('q');
  const tasks = Array.from({ length: count }, (_, i) => ({ payload: i, task: `${queue}.${i}`, ...more }));
  if (count > 0) await wire.call('queue.enqueue', { queue, tasks });
  return queue;
}

/** A socket without a session that sees sessions, tasks and what becomes of them. */
export async function watch(daemon: TestDaemon, types = ['session.>', 'task.>', 'lease.>', 'clock.>']): Promise<Wire> {
  const wire = await daemon.wire();
  await wire.call('feed.subscribe', { types });
  return wire;
}

export const at = (line: Any): number => Date.parse(line.event.time);

/** The events about tasks of `queue`, as `type task reason`. */
export const story = (watcher: Wire, queue: string): string[] =>
  watcher
    .events()
    .filter(({ event }) => event.data.queue === queue)
    .map(({ event }) => [event.type, event.data.reason].filter(Boolean).join(' '));

/** Waits until `count` events of `type` about `queue` came; answers them. */
export function eventsOf(watcher: Wire, type: string, queue: string, count = 1, limitMs = 10_000): Promise<Any[]> {
  return watcher.until(
    () => {
      const found = watcher.events().filter(({ event }) => event.type === type && event.data.queue === queue);
      return found.length >= count ? found : undefined;
    },
    limitMs,
    `${count} × ${type} of ${queue}`,
  );
}

export const sessionEvent = (watcher: Wire, type: string, session: string, limitMs = 10_000): Promise<Any> =>
  watcher.event(type, session, limitMs);

/** Opens a session, claims everything of `queue` (up to 100) and answers both. */
export async function hold(wire: Wire, queue: string, more: Any = {}): Promise<Any[]> {
  const { tasks } = await wire.call('queue.claim', { queue, count: 100, ...more });
  return tasks;
}

export const refs = (tasks: readonly Any[]): Any[] => tasks.map(({ task, fence }) => ({ task, fence }));
export const get = (wire: Wire, task: string): Promise<Any> => wire.call('queue.get', { task });
