import { setTimeout as wait } from 'node:timers/promises';
import { type Signalbox as Client, connect } from '../../../src/client/index.js';
import { type Held, handOffs } from '../hand-off.js';
import type { FencedLockSide, Load, Setup } from '../side.js';
import { inFlight, seconds } from '../stats.js';
import { side as queue } from './signalbox-queue.js';

/** Agents that a crowd is spread over. */
const agents = 20;

/** Signalbox' locks as its README shows them: `sb.lock(name, handler)`. */
class SignalboxLock implements FencedLockSide {
  #setup!: Setup;
  #clients: Client[] = [];
  #rounds = 0;

  async open(setup: Setup): Promise<void> {
    this.#setup = setup;
    this.#clients = await Promise.all(
      Array.from({ length: agents }, (_, i) => connect({ url: setup.url!, agent: `agent-${i}` })),
    );
  }

  handOff(samples: number): Promise<number[]> {
    const name = this.#name('hand-off');
    const hold = (who: number): Promise<Held> => this.#hold(this.#client(who), name);
    // As long as an idle trip through a queue waits before it begins: both are put in relation.
    return handOffs(
      samples,
      hold,
      () => this.#waiting(name, 1),
      () => 10,
    );
  }

  pairs(count: number, width: number): Promise<number> {
    const name = this.#name('pair');
    const client = this.#client(0);
    return seconds(() => inFlight(count, width, (i) => client.lock(`${name}-${i}`, () => {})));
  }

  async crowd(waiters: number): Promise<number> {
    const name = this.#name('crowd');
    const held = await this.#hold(this.#client(0), name);
    const all = Array.from({ length: waiters }, (_, i) => this.#client(i).lock(name, () => {}));
    await this.#waiting(name, waiters);
    const took = await seconds(() => {
      held.giveBack();
      return Promise.all(all);
    });
    return (1000 * took) / waiters;
  }

  async check(samples: number): Promise<number[]> {
    const name = this.#name('check');
    const client = this.#client(0);
    return client.lock(name, async ({ fence }) => {
      const took: number[] = [];
      for (let i = 0; i < samples; i++) {
        await wait(1);
        const startedAt = performance.now();
        const { valid } = await client.lock.check({ name, fence });
        took.push(performance.now() - startedAt);
        if (!valid) throw new Error(`lock.check says that fence ${fence} does not hold ${name}`);
      }
      return took;
    });
  }

  async trip(samples: number, load: Load): Promise<number[]> {
    await queue.open(this.#setup);
    try {
      await queue.queue(this.#name('trip'));
      return await queue.latency(samples, load);
    } finally {
      await queue.close();
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  #client(i: number): Client {
    return this.#clients[i % this.#clients.length]!;
  }

  #name(what: string): string {
    return `${what}-${++this.#rounds}`;
  }

  #hold(client: Client, name: string): Promise<Held> {
    return new Promise((resolve, reject) => {
      const handler = (): Promise<void> =>
        new Promise((done) => resolve({ at: performance.now(), giveBack: () => done() }));
      client.lock(name, handler).catch(reject);
    });
  }

  async #waiting(name: string, count: number): Promise<void> {
    while ((await this.#client(0).lock.get({ name })).waiting < count) await wait(1);
  }
}

export const side = new SignalboxLock();
