import { Redis } from 'ioredis';
import type { LimitSide, Setup } from '../side.js';
import { inFlight, seconds } from '../stats.js';

interface Limiter {
  consume(key: string, points: number): Promise<unknown>;
}
interface Package {
  readonly RateLimiterRedis: new (options: object) => Limiter;
}

/** Imported by a name that the compiler does not follow: everything else is measured where it is not installed, too. */
const packageName: string = 'rate-limiter-flexible';

/** rate-limiter-flexible as its manual shows it, in this process, on one Redis. */
class RateLimiterSide implements LimitSide {
  #redis!: Redis;
  #limiter!: Limiter;
  #rounds = 0;

  async open({ redisPath }: Setup): Promise<void> {
    this.#redis = new Redis({ path: redisPath!, maxRetriesPerRequest: null } as never);
    const { RateLimiterRedis } = (await import(packageName)) as Package;
    this.#limiter = new RateLimiterRedis({ storeClient: this.#redis, points: 1_000_000_000, duration: 60 });
  }

  take(count: number, width: number): Promise<number> {
    const key = `limit-${++this.#rounds}`;
    return seconds(() => inFlight(count, width, () => this.#limiter.consume(key, 1)));
  }

  async close(): Promise<void> {
    this.#redis.disconnect();
  }
}

export const side = new RateLimiterSide();
