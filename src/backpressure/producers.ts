import type { ConnectionPort } from '../context.js';
import { pushLine } from '../protocol/frame.js';

/** Who has enqueued this recently is a producer of the queue, and hears of its pressure. */
const rememberedMs = 60_000;

export interface Pressure {
  readonly queue: string;
  readonly level: number;
  readonly delayMs?: number | undefined;
}

type Producer = Pick<ConnectionPort, 'push'>;

/** The connections of this daemon that put tasks into queues with admission, for the pushes they get. */
export class Producers {
  readonly #queues = new Map<string, Map<Producer, number>>();
  /** What was told last of a queue, for whoever was on its way there meanwhile. */
  readonly #told = new Map<string, { readonly no: number; readonly line: string; readonly at: number }>();
  #tells = 0;

  /** How many changes were told so far: taken before a task is put, and given to `seen` after that. */
  get tells(): number {
    return this.#tells;
  }

  /** That a queue has admission is known by the answer of the script, and the log may be faster than the answer. */
  seen(queue: string, connection: Producer, tellsBefore: number): void {
    const known = this.#queues.get(queue) ?? new Map<Producer, number>();
    this.#queues.set(queue, known);
    const told = this.#told.get(queue);
    if (told && told.no > tellsBefore && !known.has(connection)) connection.push(told.line);
    known.set(connection, performance.now());
  }

  tell({ queue, level, delayMs }: Pressure): void {
    const line = pushLine('pressure', { queue, level, ...(delayMs === undefined ? {} : { delayMs }) });
    this.#told.set(queue, { no: ++this.#tells, line, at: performance.now() });
    const producers = this.#queues.get(queue);
    if (!producers) return;
    const since = performance.now() - rememberedMs;
    for (const [connection, at] of producers) if (at >= since) connection.push(line);
  }

  /** By the clock: neither connections that went nor names that nobody uses may pile up. */
  forget(): void {
    const since = performance.now() - rememberedMs;
    for (const [queue, { at }] of this.#told) if (at < since) this.#told.delete(queue);
    for (const [queue, producers] of this.#queues) {
      for (const [connection, at] of producers) if (at < since) producers.delete(connection);
      if (producers.size === 0) this.#queues.delete(queue);
    }
  }
}
