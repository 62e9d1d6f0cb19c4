import { type Job, Queue, Worker } from 'bullmq';
import { type Load, payload, type QueueSide, type Setup } from '../side.js';
import { inFlight, seconds } from '../stats.js';

/** BullMQ as its manual shows it, in this process: default options, so finished jobs are all kept. */
class BullMq implements QueueSide {
  #connection!: { path: string; maxRetriesPerRequest: null };
  #queue!: Queue;

  async open({ redisPath }: Setup): Promise<void> {
    this.#connection = { path: redisPath!, maxRetriesPerRequest: null };
  }

  async queue(name: string): Promise<void> {
    await this.#queue?.close();
    this.#queue = new Queue(name, { connection: this.#connection });
    await this.#queue.waitUntilReady();
  }

  enqueue({ tasks, inFlight: width, payloadBytes }: Load): Promise<number> {
    const data = payload(payloadBytes);
    return seconds(() => inFlight(tasks, width, () => this.#queue.add('task', data)));
  }

  enqueueBatched({ tasks, inFlight: width, batch, payloadBytes }: Load): Promise<number> {
    const data = payload(payloadBytes);
    const calls = Math.ceil(tasks / batch);
    const lanes = Math.max(1, Math.floor(width / batch));
    const jobs = (call: number) =>
      Array.from({ length: Math.min(batch, tasks - call * batch) }, () => ({ name: 'task', data }));
    return seconds(() => inFlight(calls, lanes, (call) => this.#queue.addBulk(jobs(call))));
  }

  async fill(load: Load): Promise<void> {
    await this.enqueueBatched({ ...load, batch: 200, inFlight: 400 });
  }

  async work({ tasks, inFlight: concurrency }: Load): Promise<number> {
    const worker = this.#worker(concurrency, async () => undefined);
    await worker.waitUntilReady();
    let left = tasks;
    const took = await seconds(
      () =>
        new Promise<void>((resolve, reject) => {
          worker.on('completed', () => {
            if (--left === 0) resolve();
          });
          worker.on('error', reject);
          worker.run().catch(reject);
        }),
    );
    await worker.close();
    return took;
  }

  /** It has no other way: a Worker is all there is. */
  workBatched(load: Load): Promise<number> {
    return this.work(load);
  }

  async latency(samples: number, { payloadBytes }: Load): Promise<number[]> {
    let arrived: (at: number) => void = () => {};
    const worker = this.#worker(1, async () => arrived(performance.now()));
    await worker.waitUntilReady();
    worker.run().catch(() => {});
    const data = payload(payloadBytes);
    const took: number[] = [];
    for (let i = 0; i < samples; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      const arrival = new Promise<number>((resolve) => {
        arrived = resolve;
      });
      const startedAt = performance.now();
      await this.#queue.add('task', data);
      took.push((await arrival) - startedAt);
    }
    await worker.close();
    return took;
  }

  async close(): Promise<void> {
    await this.#queue?.close();
  }

  #worker(concurrency: number, handler: (job: Job) => Promise<void>): Worker {
    return new Worker(this.#queue.name, handler, { connection: this.#connection, concurrency, autorun: false });
  }
}

export const side = new BullMq();
