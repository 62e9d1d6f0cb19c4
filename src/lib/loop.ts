import type { Service } from './service.js';

/**
 * Runs a piece of work again and again: at the latest every `everyMs`, earlier when the work itself says how soon
 * (milliseconds, 0 for at once) or when somebody calls `soon`. Runs never overlap, and one that throws is told and tried
 * again at the usual time.
 */
export class Loop implements Service {
  readonly name: string;
  readonly #work: () => Promise<number | undefined>;
  readonly #everyMs: number;
  readonly #onError: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  #running: Promise<void> | undefined;
  #again: number | undefined;
  #stopped = true;

  constructor(
    name: string,
    everyMs: number,
    work: () => Promise<number | undefined>,
    onError: (error: unknown) => void,
  ) {
    this.name = name;
    this.#everyMs = everyMs;
    this.#work = work;
    this.#onError = onError;
  }

  async start(): Promise<void> {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#arm(0);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#dueAt = Number.POSITIVE_INFINITY;
    await this.#running;
  }

  /** Runs within `ms`, if it would not anyway. */
  soon(ms = 0): void {
    if (this.#stopped) return;
    if (this.#running) this.#again = Math.min(this.#again ?? ms, ms);
    else this.#arm(ms);
  }

  #arm(ms: number): void {
    const at = performance.now() + ms;
    if (at >= this.#dueAt) return;
    clearTimeout(this.#timer);
    this.#dueAt = at;
    this.#timer = setTimeout(() => this.#run(), ms);
  }

  #run(): void {
    this.#dueAt = Number.POSITIVE_INFINITY;
    this.#again = undefined;
    let nextMs = this.#everyMs;
    this.#running = this.#attempt().then((soon) => {
      if (soon !== undefined) nextMs = Math.min(nextMs, soon);
      this.#running = undefined;
      if (!this.#stopped) this.#arm(Math.min(nextMs, this.#again ?? nextMs));
    });
  }

  /** Never rejects: whatever the work throws, and when, it is tried again. */
  async #attempt(): Promise<number | undefined> {
    try {
      return await this.#work();
    } catch (error) {
      this.#onError(error);
      return undefined;
    }
  }
}
