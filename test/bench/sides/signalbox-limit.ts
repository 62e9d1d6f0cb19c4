import { type Signalbox as Client, connect } from '../../../src/client/index.js';
import type { SettledLimitSide, Setup } from '../side.js';
import { inFlight, seconds } from '../stats.js';

const cost = { requests: 1 };

/** A strict window, asked by one agent over its WebSocket. */
class SignalboxLimit implements SettledLimitSide {
  #client!: Client;
  #taken: string[] = [];
  #rounds = 0;

  async open({ url }: Setup): Promise<void> {
    this.#client = await connect({ url: url!, agent: 'caller' });
  }

  async take(count: number, width: number): Promise<number> {
    const name = await this.#define();
    this.#taken = [];
    return seconds(() =>
      inFlight(count, width, async () => {
        this.#taken.push((await this.#client.limit.reserve({ name, cost })).reservation);
      }),
    );
  }

  async giveBack(width: number): Promise<void> {
    await inFlight(this.#taken.length, width, (i) => this.#client.limit.settle({ reservation: this.#taken[i]! }));
  }

  async takeAndSettle(count: number, width: number): Promise<number> {
    const name = await this.#define();
    return seconds(() =>
      inFlight(count, width, async () => {
        const { reservation } = await this.#client.limit.reserve({ name, cost });
        await this.#client.limit.settle({ reservation });
      }),
    );
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }

  async #define(): Promise<string> {
    const name = `limit-${++this.#rounds}`;
    const dimensions = { requests: { amount: 1_000_000_000, perMs: 60_000 } };
    await this.#client.limit.define({ name, kind: 'window', dimensions });
    return name;
  }
}

export const side = new SignalboxLimit();
