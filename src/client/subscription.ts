import { parsePosition } from '../protocol/position.js';
import { Closed } from './errors.js';

/** An event as every subscriber gets it. `data` is whatever its publisher sent. */
export interface FeedEvent {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject?: string;
  readonly time: string;
  readonly data: unknown;
}

/** Something was lost here: `from` is the last position handled, `to` the one it goes on from. */
export interface Gap {
  readonly from: string;
  readonly to: string;
  /** Absent if nobody can know. */
  readonly lost?: number;
  readonly reason: 'trimmed' | 'fork' | 'reset' | (string & {});
}

/** What a subscription delivers, in place: an event, or a gap before the event after it. Told apart by `gap`. */
export type Delivery =
  | { readonly event: FeedEvent; readonly gap?: undefined; readonly offset: number; readonly position: string }
  | { readonly gap: Gap; readonly event?: undefined; readonly position: string };

/** May be slow: what it returns is awaited before the next delivery. What it throws goes to `onError`. */
export type Listener = (delivery: Delivery) => unknown;

export interface SubscriptionPorts {
  readonly bufferMax: number;
  /** It has as much in store as it may: the feed has to halt. */
  full(): void;
  /** There is room again. */
  room(): void;
  close(): Promise<void>;
  onError(error: Error): void;
}

/**
 * The end of the feed that the caller holds: calls a listener, or is iterated. What comes while the listener (or the
 * loop's body) is busy waits here, up to a bound; then the feed is halted, not the buffer grown.
 */
export class Subscription implements AsyncIterable<Delivery> {
  private readonly listener: Listener | undefined;
  private readonly ports: SubscriptionPorts;
  private store: Delivery[] = [];
  private read = 0;
  private busy = false;
  private isFull = false;
  private ended: { error: Error | undefined } | undefined;
  private onEnd: ((error: Error | undefined) => void)[] = [];
  private next: { resolve(item: IteratorResult<Delivery>): void; reject(error: Error): void } | undefined;

  constructor(listener: Listener | undefined, ports: SubscriptionPorts) {
    this.listener = listener;
    this.ports = ports;
  }

  /** No delivery comes after this was called. */
  close(): Promise<void> {
    if (this.ended) return Promise.resolve();
    this.end(undefined);
    return this.ports.close();
  }

  /** Tells once that nothing will come any more: an error, or undefined after `close`. */
  whenEnded(then: (error: Error | undefined) => void): void {
    if (this.ended) then(this.ended.error);
    else this.onEnd.push(then);
  }

  push(delivery: Delivery): void {
    if (this.ended) return;
    if (this.next) {
      const { resolve } = this.next;
      this.next = undefined;
      resolve({ value: delivery, done: false });
      return;
    }
    if (this.listener && !this.busy && this.waiting === 0) {
      this.call(delivery);
      return;
    }
    this.store.push(delivery);
    if (this.waiting < this.ports.bufferMax || this.isFull) return;
    this.isFull = true;
    this.ports.full();
  }

  /** The feed is over for this subscription. An iterator still gets what is in store. */
  end(error: Error | undefined): void {
    if (this.ended) return;
    this.ended = { error };
    if (error === undefined || this.listener) this.clear();
    if (this.next) {
      if (error && !isOurClose(error)) this.next.reject(error);
      else this.next.resolve({ value: undefined, done: true });
      this.next = undefined;
    }
    for (const then of this.onEnd.splice(0)) then(error);
  }

  [Symbol.asyncIterator](): AsyncIterator<Delivery> {
    if (this.listener) throw new TypeError('a subscription with a listener cannot be iterated as well');
    return {
      next: () => this.take(),
      return: async () => {
        await this.close();
        return { value: undefined, done: true };
      },
    };
  }

  private get waiting(): number {
    return this.store.length - this.read;
  }

  private take(): Promise<IteratorResult<Delivery>> {
    if (this.waiting > 0) return Promise.resolve({ value: this.shift(), done: false });
    if (this.ended) {
      const { error } = this.ended;
      this.ended = { error: undefined };
      return error && !isOurClose(error) ? Promise.reject(error) : Promise.resolve({ value: undefined, done: true });
    }
    if (this.next) return Promise.reject(new TypeError('the iterator was asked again before it answered'));
    return new Promise((resolve, reject) => {
      this.next = { resolve, reject };
    });
  }

  private call(delivery: Delivery): void {
    try {
      const result = this.listener!(delivery);
      if (typeof (result as PromiseLike<unknown> | undefined)?.then !== 'function') return;
      this.busy = true;
      (result as PromiseLike<unknown>).then(this.idle, (error) => {
        this.ports.onError(asError(error));
        this.idle();
      });
    } catch (error) {
      this.ports.onError(asError(error));
    }
  }

  private readonly idle = (): void => {
    this.busy = false;
    while (!this.busy && this.waiting > 0) this.call(this.shift());
  };

  private shift(): Delivery {
    const delivery = this.store[this.read++]!;
    if (this.read === this.store.length) this.clear();
    else if (this.read >= this.ports.bufferMax) {
      this.store = this.store.slice(this.read);
      this.read = 0;
    }
    // Not on the first place free: halting and going on cost a round trip.
    if (this.isFull && this.waiting <= this.ports.bufferMax / 4) {
      this.isFull = false;
      this.ports.room();
    }
    return delivery;
  }

  private clear(): void {
    this.store = [];
    this.read = 0;
  }
}

/** A close of ours ends a loop, it does not throw into it. */
const isOurClose = (error: Error): boolean => error instanceof Closed && error.code === 1000;

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

/** The daemon's own `gap` says more; this stands in for it where none comes. */
export function jump(from: string, to: string): Gap {
  const [was, is] = [parsePosition(from), parsePosition(to)];
  if (!was || !is || was.epoch !== is.epoch) return { from, to, reason: 'fork' };
  return { from, to, lost: Math.max(0, is.offset - was.offset), reason: 'trimmed' };
}
