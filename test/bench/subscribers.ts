import { Child } from './child.js';
import { needSockets } from './process.js';
import type { SubscriberPool } from './sides/subscribers.js';
import type { Tally } from './subscriber.js';

/** The subscribers of a feed, in two processes of their own that share them; they are the same for both sides. */
const processes = 2;

export class Subscribers {
  readonly #pools: readonly Child<SubscriberPool>[];

  private constructor(pools: readonly Child<SubscriberPool>[]) {
    this.#pools = pools;
  }

  /** Runs `use` with so many that are connected to `url`; none is left when it is over. */
  static async use<T>(url: string, count: number, use: (subscribers: Subscribers) => Promise<T>): Promise<T> {
    needSockets(count);
    const pools = Array.from({ length: processes }, () => new Child<SubscriberPool>('subscribers'));
    try {
      await Promise.all(pools.map((pool, i) => pool.ask('connect', url, share(count, i))));
      return await use(new Subscribers(pools));
    } finally {
      await Promise.all(pools.map((pool) => pool.ask('close').catch(() => {})));
      await Promise.all(pools.map((pool) => pool.stop()));
    }
  }

  async ask(line: string | undefined): Promise<void> {
    if (line !== undefined) await Promise.all(this.#pools.map((pool) => pool.ask('ask', line)));
  }

  /** From here on `events` are waited for at everybody who reads. */
  async expect(events: number): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.ask('expect', events)));
  }

  /** Resolves when everybody who reads has them; with what all of them got. */
  async arrived(): Promise<Tally> {
    const tallies = await Promise.all(this.#pools.map((pool) => pool.ask('arrived')));
    return tallies.reduce((sum, { lines, messages, bytes }) => ({
      lines: sum.lines + lines,
      messages: sum.messages + messages,
      bytes: sum.bytes + bytes,
    }));
  }

  async stopReading(count: number): Promise<void> {
    await Promise.all(this.#pools.map((pool, i) => pool.ask('stopReading', share(count, i))));
  }
}

const share = (count: number, process: number): number => Math.floor((count + process) / processes);
