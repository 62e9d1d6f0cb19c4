import { Refusal } from '../errors.js';
import type { Outcomes } from './outcomes.js';
import type { Task } from './run.js';

interface Waiting {
  readonly told: Promise<void>;
  resolve(): void;
  reject(error: Error): void;
}

/** Progress of one task: one report under way at most, no more than one in `everyMs`, and of many the last one counts. */
export class Progress {
  private readonly task: Task;
  private readonly outcomes: Outcomes;
  private readonly everyMs: number;
  private readonly onStale: () => void;
  private next: { progress: unknown; saved: unknown } | undefined;
  /** What everybody waits for who told something since the last report left. */
  private waiting: Waiting | undefined;
  private inFlight = false;
  private sentAt = Number.NEGATIVE_INFINITY;
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;

  constructor(task: Task, outcomes: Outcomes, everyMs: number, onStale: () => void) {
    this.task = task;
    this.outcomes = outcomes;
    this.everyMs = everyMs;
    this.onStale = onStale;
  }

  /** Settles when this value, or a later one, is stored. Nobody has to listen to it. */
  tell(progress: unknown, saved: unknown): Promise<void> {
    this.next = { progress, saved: saved === undefined ? this.next?.saved : saved };
    this.waiting ??= newWaiting();
    const { told } = this.waiting;
    this.pump();
    return told;
  }

  /** The handler is done or told to stop: what was not sent is pointless now. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.next = undefined;
    this.waiting?.resolve();
    this.waiting = undefined;
  }

  private pump(): void {
    if (this.inFlight || !this.next || this.stopped) return;
    const waitMs = this.sentAt + this.everyMs - performance.now();
    if (waitMs > 0) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.pump(), waitMs);
      this.timer.unref();
      return;
    }
    this.send(this.next);
  }

  private send(next: { progress: unknown; saved: unknown }): void {
    const { waiting } = this;
    this.waiting = undefined;
    this.next = undefined;
    const { task, fence } = this.task;
    let params: string;
    try {
      params = JSON.stringify({ task, fence, progress: next.progress ?? null, saved: next.saved });
    } catch (error) {
      waiting?.reject(error as Error);
      return;
    }
    this.inFlight = true;
    this.sentAt = performance.now();
    this.outcomes.progress(params, (error) => {
      this.inFlight = false;
      if (error) waiting?.reject(error);
      else waiting?.resolve();
      if (error instanceof Refusal && (error.code === 'STALE_FENCE' || error.code === 'NOT_FOUND')) this.onStale();
      this.pump();
    });
  }
}

function newWaiting(): Waiting {
  let resolve = (): void => {};
  let reject = (_error: Error): void => {};
  const told = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  // Nobody has to listen.
  told.catch(() => {});
  return { told, resolve, reject };
}
