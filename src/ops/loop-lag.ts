import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { Service } from '../lib/service.js';

const resolutionMs = 20;
const windowMs = 10_000;

/** How late the event loop is: everything this daemon does waits at least that long. */
export class LoopLag implements Service {
  readonly name = 'loop lag';
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: resolutionMs });
  #before = 0;
  #timer: NodeJS.Timeout | undefined;

  async start(): Promise<void> {
    if (this.#timer) return;
    this.#histogram.enable();
    this.#timer = setInterval(() => {
      this.#before = this.#now();
      this.#histogram.reset();
    }, windowMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#histogram.disable();
  }

  /** The mean over the last ten seconds, or over the ten before if that was worse. */
  get meanMs(): number {
    return Math.max(this.#before, this.#now());
  }

  #now(): number {
    const mean = this.#histogram.mean / 1e6 - resolutionMs;
    return Number.isFinite(mean) ? Math.max(0, mean) : 0;
  }
}
