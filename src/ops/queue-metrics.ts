import { Gauge, type Registry } from 'prom-client';
import { queuesScript, readStats } from '../queue/stats.js';
import type { DaemonView } from './daemon.js';

/** Queues that get series of their own, over all namespaces; names come from clients, and so could their number. */
export const queuesMax = 100;
/** Numbers younger than this are given again: a second scraper costs Redis nothing. */
const freshMs = 1000;

/** Depth, age and states by queue, read from Redis when somebody asks. Every daemon on a Redis tells the same. */
export class QueueMetrics {
  readonly #gauges;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, more: string[] = []) =>
      new Gauge({
        name: `signalbox_queue_${name}`,
        help,
        labelNames: ['namespace', 'queue', ...more],
        registers: [registry],
      });
    this.#gauges = {
      depth: gauge('depth', 'Tasks that wait and could run: ready and blocked.'),
      tasks: gauge('tasks', 'Tasks by state.', ['state']),
      oldest: gauge('oldest_age_seconds', 'Age of the oldest task that is ready.'),
      maxDepth: gauge('max_depth', 'Bound of depth and scheduled tasks together, where one is configured.'),
      overloaded: gauge('overloaded', '1 when the queue takes nothing more.'),
      pressure: gauge('pressure_level', 'Level of admission, 0 to 3, where a queue has some.'),
      turnedAway: gauge('turned_away', 'Tasks that admission shed or rejected.', ['how']),
      paused: gauge('paused', '1 when the queue is paused.'),
      unlisted: new Gauge({
        name: 'signalbox_queues_unlisted',
        help: `Queues without series of their own: at most ${queuesMax} have some.`,
        registers: [registry],
      }),
    };
  }

  /** Redis is away: no numbers rather than old ones. */
  clear(): void {
    for (const gauge of Object.values(this.#gauges)) gauge.reset();
    this.#readAt = Number.NEGATIVE_INFINITY;
  }

  async refresh({ namespaces, store }: DaemonView): Promise<void> {
    if (performance.now() - this.#readAt < freshMs) return;
    this.clear();
    let room = queuesMax;
    let unlisted = 0;
    for (const { namespace } of namespaces) {
      const listed = room > 0 ? await namespace.read<string[]>(queuesScript, ['', room]) : [];
      unlisted += Math.max(0, (await store.client.zcard(`${namespace.prefix}queues`)) - listed.length);
      room -= listed.length;
      const all = await Promise.all(listed.map((name) => readStats(name, namespace)));
      for (const stats of all) this.#set(namespace.name, stats);
    }
    this.#gauges.unlisted.set(unlisted);
    this.#readAt = performance.now();
  }

  #set(namespace: string, stats: Awaited<ReturnType<typeof readStats>>): void {
    const { depth, tasks, oldest, maxDepth, overloaded, paused, pressure, turnedAway } = this.#gauges;
    const labels = { namespace, queue: stats.queue };
    depth.set(labels, stats.depth);
    oldest.set(labels, stats.oldestReadyMs / 1000);
    overloaded.set(labels, Number(stats.overloaded));
    paused.set(labels, Number(stats.paused));
    if (stats.pressure) {
      pressure.set(labels, stats.pressure.level);
      turnedAway.set({ ...labels, how: 'shed' }, stats.pressure.shed);
      turnedAway.set({ ...labels, how: 'rejected' }, stats.pressure.rejected);
    }
    if (stats.maxDepth !== undefined) maxDepth.set(labels, stats.maxDepth);
    for (const [state, count] of Object.entries(stats.states)) tasks.set({ ...labels, state }, count);
  }
}
