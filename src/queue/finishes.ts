import { Refusal } from '../errors.js';

/**
 * Calls that wait for a task to end (queue.result). The log wakes them; whoever is woken reads Redis again, so a wake too
 * many is harmless, and after a hole in what the log told everybody is woken.
 */
export class Finishes {
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #max: number;
  #count = 0;

  constructor(max = 100_000) {
    this.#max = max;
  }

  get size(): number {
    return this.#count;
  }

  /** Resolves when the task may have ended, when `waitMs` is over, or when `gone` aborts. */
  wait(task: string, waitMs: number, gone: AbortSignal): { done: Promise<void>; stop: () => void } {
    if (this.#count >= this.#max)
      throw new Refusal('UNAVAILABLE', 'too many calls wait for results here', { afterMs: 1000 });
    let stop = (): void => undefined;
    const done = new Promise<void>((resolve) => {
      const timer = setTimeout(() => stop(), Math.min(waitMs, 2 ** 31 - 1));
      const set = this.#waiting.get(task) ?? new Set();
      this.#waiting.set(task, set);
      let stopped = false;
      stop = () => {
        if (stopped) return;
        stopped = true;
        clearTimeout(timer);
        gone.removeEventListener('abort', stop);
        set.delete(stop);
        if (set.size === 0 && this.#waiting.get(task) === set) this.#waiting.delete(task);
        this.#count--;
        resolve();
      };
      set.add(stop);
      this.#count++;
      gone.addEventListener('abort', stop);
      if (gone.aborted) stop();
    });
    return { done, stop: () => stop() };
  }

  ended(task: string): void {
    const set = this.#waiting.get(task);
    if (set) for (const stop of [...set]) stop();
  }

  wakeAll(): void {
    for (const set of [...this.#waiting.values()]) for (const stop of [...set]) stop();
  }
}
