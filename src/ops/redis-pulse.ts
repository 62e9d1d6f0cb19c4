import type { Service } from '../lib/service.js';

const everyMs = 1000;
const limitMs = 1500;

/**
 * Whether Redis answers, asked once a second and whenever somebody wants to know now. The state of a connection is no
 * answer to that: it stays `ready` in front of a Redis that hangs. How long Redis has answered without a break tells a
 * reader that is deaf from one that has only just got its Redis back.
 */
export class RedisPulse implements Service {
  readonly name = 'redis pulse';
  /** Of the last answer; undefined if the last question had none. */
  rttMs: number | undefined;
  readonly #ask: () => Promise<unknown>;
  #since: number | undefined;
  #asking: Promise<boolean> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(ask: () => Promise<unknown>) {
    this.#ask = ask;
  }

  /** 0 while it does not answer. */
  get answeringForMs(): number {
    return this.#since === undefined ? 0 : performance.now() - this.#since;
  }

  async start(): Promise<void> {
    this.#timer ??= setInterval(() => void this.check(), everyMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Asks now; whoever comes while a question is out shares its answer. */
  check(): Promise<boolean> {
    this.#asking ??= this.#question().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #question(): Promise<boolean> {
    const askedAt = performance.now();
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('late')), limitMs);
      });
      await Promise.race([this.#ask(), late]);
      this.rttMs = performance.now() - askedAt;
      this.#since ??= performance.now();
    } catch {
      this.rttMs = undefined;
      this.#since = undefined;
    } finally {
      clearTimeout(timer);
    }
    return this.rttMs !== undefined;
  }
}
