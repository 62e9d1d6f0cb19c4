import type { Pressure } from './options.js';

/** Queues that are remembered; of more, the one that was heard of first is sent to unslowed. */
const queuesMax = 1000;

interface Advice {
  readonly delayMs: number;
  /** Nothing is sent before (performance.now). */
  notBefore: number;
}

/**
 * How fast a producer may be: what a queue under pressure advises is waited between one turn's requests to it and the next. What
 * is asked for meanwhile leaves together, so a caller that awaits each answer is slowed to one task a delay.
 */
export class Pace {
  private readonly advice = new Map<string, Advice>();
  private readonly arm: () => void;
  private timer: NodeJS.Timeout | undefined;
  private wakeAt = Number.POSITIVE_INFINITY;

  constructor(arm: () => void) {
    this.arm = arm;
  }

  set({ queue, level, delayMs = 0 }: Pressure): void {
    const before = this.advice.get(queue);
    if (level > 0 && delayMs > 0) {
      if (!before && this.advice.size >= queuesMax) this.advice.delete(this.advice.keys().next().value!);
      this.advice.set(queue, { delayMs, notBefore: performance.now() + delayMs });
    } else if (before) {
      this.advice.delete(queue);
      // Whoever waits because of it goes on at once.
      this.arm();
    }
  }

  /** True if something may be sent to `queue` now; then the next pause begins. Else it is asked again when it may. */
  allows(queue: string): boolean {
    const advice = this.advice.get(queue);
    if (!advice) return true;
    const now = performance.now();
    if (now >= advice.notBefore) {
      advice.notBefore = now + advice.delayMs;
      return true;
    }
    if (advice.notBefore < this.wakeAt) this.wake(advice.notBefore, now);
    return false;
  }

  /** Keeps the process alive: somebody waits for the answer to what has not been sent yet. */
  private wake(at: number, now: number): void {
    clearTimeout(this.timer);
    this.wakeAt = at;
    this.timer = setTimeout(
      () => {
        this.wakeAt = Number.POSITIVE_INFINITY;
        this.arm();
      },
      Math.ceil(at - now),
    );
  }
}
