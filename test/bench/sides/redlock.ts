import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type Held, handOffs } from '../hand-off.js';
import type { LockSide, Setup } from '../side.js';
import { inFlight, seconds } from '../stats.js';

interface RedlockLock {
  release(): Promise<unknown>;
}
interface Redlock {
  acquire(resources: readonly string[], durationMs: number): Promise<RedlockLock>;
}
type RedlockClass = new (clients: readonly Redis[], settings: object) => Redlock;

/** Imported by a name that the compiler does not follow: everything else is measured where it is not installed, too. */
const packageName: string = 'redlock';
const durationMs = 60_000;

/** redlock as its manual shows it, in this process, on one Redis; it waits by asking again, here until it has it. */
class RedlockSide implements LockSide {
  #redis!: Redis;
  #redlock!: Redlock;
  /** Its default. */
  readonly #retryDelayMs = 200;
  #rounds = 0;

  async open({ redisPath }: Setup): Promise<void> {
    this.#redis = new Redis({ path: redisPath!, maxRetriesPerRequest: null } as never);
    const { default: found } = (await import(packageName)) as { default: RedlockClass | { default: RedlockClass } };
    const Class = typeof found === 'function' ? found : found.default;
    this.#redlock = new Class([this.#redis], { retryCount: -1, retryDelay: this.#retryDelayMs });
  }

  handOff(samples: number): Promise<number[]> {
    const name = this.#name('hand-off');
    // Nobody can see who waits. Given back at any moment between two tries, as it would be.
    return handOffs(
      samples,
      () => this.#hold(name),
      () => wait(10),
      () => Math.random() * this.#retryDelayMs,
    );
  }

  pairs(count: number, width: number): Promise<number> {
    const name = this.#name('pair');
    return seconds(() => inFlight(count, width, (i) => this.#take(`${name}-${i}`)));
  }

  async crowd(waiters: number): Promise<number> {
    const name = this.#name('crowd');
    const held = await this.#hold(name);
    const all = Array.from({ length: waiters }, () => this.#take(name));
    await wait(2 * this.#retryDelayMs);
    const took = await seconds(() => {
      held.giveBack();
      return Promise.all(all);
    });
    return (1000 * took) / waiters;
  }

  async close(): Promise<void> {
    this.#redis.disconnect();
  }

  #name(what: string): string {
    return `${what}-${++this.#rounds}`;
  }

  async #take(name: string): Promise<void> {
    const lock = await this.#redlock.acquire([name], durationMs);
    await lock.release();
  }

  async #hold(name: string): Promise<Held> {
    const lock = await this.#redlock.acquire([name], durationMs);
    // A release that failed would show as a wait without end, which the bound of the line ends.
    return { at: performance.now(), giveBack: () => void lock.release().catch(() => {}) };
  }
}

export const side = new RedlockSide();
