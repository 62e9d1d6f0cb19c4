export interface Timed {
  /** The slot the wheel put it in; 0 when it is in none. */
  slot: number;
}

/**
 * Deadlines for thousands of calls with one timer: slots of `stepMs`, each a set. Late by at most one step, never
 * early. The timer runs only while something is due and does not keep the process alive: the socket does.
 */
export class Wheel<T extends Timed> {
  private readonly slots = new Map<number, Set<T>>();
  private readonly stepMs: number;
  private readonly due: (item: T) => void;
  private timer: NodeJS.Timeout | undefined;
  private turned = 0;

  constructor(stepMs: number, due: (item: T) => void) {
    this.stepMs = stepMs;
    this.due = due;
  }

  add(item: T, afterMs: number): void {
    const step = this.step();
    if (this.timer === undefined) {
      this.turned = step;
      this.timer = setInterval(() => this.turn(), this.stepMs);
      this.timer.unref();
    }
    item.slot = step + Math.ceil(afterMs / this.stepMs) + 1;
    const slot = this.slots.get(item.slot);
    if (slot) slot.add(item);
    else this.slots.set(item.slot, new Set([item]));
  }

  delete(item: T): void {
    this.slots.get(item.slot)?.delete(item);
    item.slot = 0;
  }

  private step(): number {
    return Math.floor(performance.now() / this.stepMs) + 1;
  }

  private turn(): void {
    const step = this.step();
    // After a freeze a thousand steps are due at once: walk the slots there are, not the steps there were.
    const reached =
      step - this.turned > this.slots.size
        ? [...this.slots.keys()].filter((at) => at <= step)
        : range(this.turned + 1, step);
    this.turned = step;
    for (const at of reached) {
      const items = this.slots.get(at);
      if (!items) continue;
      this.slots.delete(at);
      for (const item of items) {
        item.slot = 0;
        this.due(item);
      }
    }
    if (this.slots.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}
