import { Gauge, type Registry } from 'prom-client';
import { readLimits } from '../limit/list.js';
import type { Limit } from '../limit/model.js';
import type { DaemonView } from './daemon.js';

/** Limits that get series of their own, over all namespaces; names come from clients, and so could their number. */
export const limitsMax = 100;
/** Numbers younger than this are given again: a second scraper costs Redis nothing. */
const freshMs = 1000;

/** What is used of each limit and who waits, read from Redis when somebody asks. Every daemon on a Redis tells the same. */
export class LimitMetrics {
  readonly #gauges;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, more: string[] = []) =>
      new Gauge({
        name: `signalbox_limit_${name}`,
        help,
        labelNames: ['namespace', 'limit', ...more],
        registers: [registry],
      });
    this.#gauges = {
      amount: gauge('amount', 'How much of a dimension there is.', ['dimension']),
      used: gauge('used', 'What is gone of a dimension and comes back by time only.', ['dimension']),
      reserved: gauge('reserved', 'What reservations that are not settled yet have of a dimension.', ['dimension']),
      remaining: gauge('remaining', 'What is left of a dimension; below zero it is a debt.', ['dimension']),
      waiting: gauge('waiting', 'Reservations that wait for the limit.'),
      blocked: gauge('blocked', '1 during the pause that limit.penalize has asked for.'),
      unlisted: new Gauge({
        name: 'signalbox_limits_unlisted',
        help: `Limits without series of their own: at most ${limitsMax} have some.`,
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
    let room = limitsMax;
    let unlisted = 0;
    for (const { namespace } of namespaces) {
      const limits = room > 0 ? await readLimits(namespace, '', '', room) : [];
      unlisted += Math.max(0, (await store.client.zcard(`${namespace.prefix}limits`)) - limits.length);
      room -= limits.length;
      for (const limit of limits) this.#set(namespace.name, limit);
    }
    this.#gauges.unlisted.set(unlisted);
    this.#readAt = performance.now();
  }

  #set(namespace: string, { name, usage, waiting, blockedUntilAt }: Limit): void {
    const { amount, used, reserved, remaining, waiting: waits, blocked } = this.#gauges;
    const labels = { namespace, limit: name };
    waits.set(labels, waiting);
    blocked.set(labels, Number(blockedUntilAt !== undefined));
    for (const [dimension, row] of Object.entries(usage)) {
      const of = { ...labels, dimension };
      amount.set(of, row.amount);
      used.set(of, row.used);
      reserved.set(of, row.reserved);
      remaining.set(of, row.remaining);
    }
  }
}
