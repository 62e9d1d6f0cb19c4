import { type Signalbox as Client, connect, type Owned } from '../../../src/client/index.js';
import { type AdmittingQueueSide, type Load, payload, type Setup } from '../side.js';
import { inFlight, seconds } from '../stats.js';

/** Signalbox as its README shows it: the SDK over one WebSocket to a daemon in a process of its own. */
export class SignalboxQueue implements AdmittingQueueSide {
  #url = '';
  #client!: Client;
  #queue = '';

  async open({ url }: Setup): Promise<void> {
    this.#url = url!;
    this.#client = await this.#connect('producer');
  }

  async queue(name: string): Promise<void> {
    this.#queue = name;
  }

  async admit(): Promise<void> {
    const never = 1_000_000_000;
    const admission = { low: never, high: never, critical: never, minRate: 0 };
    await this.#client.queue.configure({ queue: this.#queue, admission });
  }

  enqueue({ tasks, inFlight: width, payloadBytes }: Load): Promise<number> {
    const data = payload(payloadBytes);
    return seconds(() => inFlight(tasks, width, () => this.#client.enqueue(this.#queue, data)));
  }

  enqueueBatched({ tasks, inFlight: width, batch, payloadBytes }: Load): Promise<number> {
    const data = payload(payloadBytes);
    const calls = Math.ceil(tasks / batch);
    const lanes = Math.max(1, Math.floor(width / batch));
    const many = (call: number) =>
      Array.from({ length: Math.min(batch, tasks - call * batch) }, () => ({ payload: data }));
    return seconds(() =>
      inFlight(calls, lanes, (call) => this.#client.queue.enqueue({ queue: this.#queue, tasks: many(call) })),
    );
  }

  async fill(load: Load): Promise<void> {
    await this.enqueueBatched({ ...load, batch: 200, inFlight: 400 });
  }

  async work({ tasks, inFlight: concurrency }: Load): Promise<number> {
    const agent = await this.#connect('agent');
    let left = tasks;
    let done = (): void => {};
    const all = new Promise<void>((resolve) => {
      done = resolve;
    });
    const took = await seconds(async () => {
      const worker = agent.work(this.#queue, { concurrency }, async () => {
        if (--left === 0) done();
      });
      await all;
      // Resolves when the last outcomes were answered.
      await worker.stop();
    });
    await agent.close();
    return took;
  }

  /**
   * As many lanes as fit `inFlight`, each handing in what it has and asking for the next in one turn: the daemon makes
   * that one step, in which the old tasks end before the new ones begin.
   */
  async workBatched({ tasks, inFlight: width, batch }: Load): Promise<number> {
    const agent = await this.#connect('agent');
    const queue = this.#queue;
    let left = tasks;
    const lane = async (): Promise<void> => {
      let owned: Owned[] = [];
      while (left > 0 || owned.length > 0) {
        const count = Math.min(batch, left);
        left -= count;
        const handed = owned.length > 0 ? agent.queue.complete({ tasks: owned }) : undefined;
        const claimed = count > 0 ? await agent.queue.claim({ queue, count, waitMs: 1000 }) : { tasks: [] };
        await handed;
        left += count - claimed.tasks.length;
        owned = claimed.tasks.map(({ task, fence }) => ({ task, fence }));
      }
    };
    const lanes = Math.max(1, Math.floor(width / batch));
    const took = await seconds(() => Promise.all(Array.from({ length: lanes }, lane)));
    await agent.close();
    return took;
  }

  async latency(samples: number, { payloadBytes }: Load): Promise<number[]> {
    const agent = await this.#connect('agent');
    let arrived: (at: number) => void = () => {};
    const worker = agent.work(this.#queue, { concurrency: 1 }, async () => arrived(performance.now()));
    const data = payload(payloadBytes);
    const took: number[] = [];
    for (let i = 0; i < samples; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      const arrival = new Promise<number>((resolve) => {
        arrived = resolve;
      });
      const startedAt = performance.now();
      await this.#client.enqueue(this.#queue, data);
      took.push((await arrival) - startedAt);
    }
    await worker.stop();
    await agent.close();
    return took;
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }

  #connect(agent: string): Promise<Client> {
    return connect({ url: this.#url, agent });
  }
}

export const side = new SignalboxQueue();
