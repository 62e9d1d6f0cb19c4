import { Refusal } from '../errors.js';
import type { Subscribing } from '../feed/port.js';
import type { FeedSink } from '../feed/sink.js';
import type { Filter } from '../protocol/filter.js';
import type { Position } from '../protocol/position.js';
import { Cursor } from './cursor.js';
import { type Fanout, gapLine } from './fanout.js';
import type { FeedTail } from './sinks.js';

const subscriptionsMax = 64;

/**
 * The subscriptions of one connection: filters on one cursor, so that an event comes at most once and in order however
 * many of them match. The first one makes the cursor, the last one ends it.
 */
export class Tail implements FeedTail {
  readonly #sink: FeedSink;
  readonly #fanoutOf: (namespace: string) => Fanout;
  readonly #filters = new Map<string, Filter>();
  #cursor: Cursor | undefined;
  #numbers = 0;
  #over = false;

  constructor(sink: FeedSink, fanoutOf: (namespace: string) => Fanout) {
    this.#sink = sink;
    this.#fanoutOf = fanoutOf;
  }

  get position(): Position | undefined {
    return this.#cursor?.position;
  }

  get message(): number {
    return this.#sink.message;
  }

  subscribe({ namespace, filter, at, gap }: Subscribing): string {
    // feed.subscribe may come back from Redis after the socket went.
    if (this.#over) throw new Refusal('SESSION_LOST', 'the connection has ended');
    if (this.#filters.size === subscriptionsMax) {
      throw new Refusal('LIMIT', `a connection has at most ${subscriptionsMax} subscriptions`);
    }
    if (this.#cursor) this.#cursor.want([...this.#filters.values(), filter]);
    else this.#cursor = new Cursor(this.#sink, this.#fanoutOf(namespace), [filter], at, gap && gapLine(gap));
    const id = `s${++this.#numbers}`;
    this.#filters.set(id, filter);
    return id;
  }

  unsubscribe(subscription: string): boolean {
    if (!this.#filters.delete(subscription)) return false;
    this.#sink.seal();
    if (this.#filters.size === 0) this.#end();
    else this.#cursor?.want([...this.#filters.values()]);
    return true;
  }

  /** With the connection; with the last subscription only the cursor ends. */
  dispose(): void {
    this.#over = true;
    this.#filters.clear();
    this.#end();
  }

  #end(): void {
    this.#cursor?.end();
    this.#cursor = undefined;
  }
}
