/** Something that wants to be looked at from time to time: a connection. It stands at most once on the wheel. */
export interface Ticker {
  /** When it wants to be called, on the wheel's clock; the wheel writes and reads it. */
  dueAt: number;
  /** Does what is due and answers in how many milliseconds it wants to be called again. */
  tick(now: number): number;
}

const stepMs = 20;
const slots = 1024;

/**
 * One timer for all connections: heartbeats, receipts, stalls. A timer a socket or a frame costs more than what it
 * guards. Exact to `stepMs`, late rather than early; a delay beyond one turn of the wheel takes several looks.
 *
 * What is due runs one phase of the event loop after the timer fired, behind everything the sockets had to say: after
 * a pause of this process (SIGSTOP, a long collection) peers that answered meanwhile are heard before they are judged.
 */
export class Wheel {
  readonly #slots: (Set<Ticker> | undefined)[] = new Array(slots);
  readonly #onFault: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #step = Math.floor(performance.now() / stepMs);
  #looking = false;
  /** Monotonic milliseconds, as of the last step: cheap and close enough for "when was it last heard". */
  now = performance.now();

  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault;
    this.#timer = setInterval(() => this.#advance(), stepMs).unref();
  }

  /** Calls `ticker` within `delayMs` at the latest; a later date it already has is moved up, an earlier one stays. */
  within(ticker: Ticker, delayMs: number): void {
    const dueAt = this.now + delayMs;
    if (ticker.dueAt <= dueAt) return;
    this.remove(ticker);
    this.#put(ticker, dueAt);
  }

  remove(ticker: Ticker): void {
    if (ticker.dueAt === Number.POSITIVE_INFINITY) return;
    this.#slots[this.#slotOf(ticker.dueAt)]?.delete(ticker);
    ticker.dueAt = Number.POSITIVE_INFINITY;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #slotOf(at: number): number {
    return (Math.floor(at / stepMs) + 1) % slots;
  }

  #put(ticker: Ticker, dueAt: number): void {
    // Never into the slot that is being looked at, and never beyond one turn: `dueAt` is where it stands, not a wish.
    ticker.dueAt = Math.min(Math.max(dueAt, this.now), this.now + (slots - 2) * stepMs);
    const slot = this.#slotOf(ticker.dueAt);
    let set = this.#slots[slot];
    if (!set) {
      set = new Set();
      this.#slots[slot] = set;
    }
    set.add(ticker);
  }

  #advance(): void {
    this.now = performance.now();
    if (this.#looking) return;
    this.#looking = true;
    setImmediate(() => {
      this.#looking = false;
      const target = Math.floor(this.now / stepMs);
      // After a long pause one turn sees every slot.
      const first = Math.max(this.#step + 1, target - slots + 1);
      this.#step = target;
      for (let step = first; step <= target; step++) this.#look(this.#slots[step % slots]);
    });
  }

  #look(set: Set<Ticker> | undefined): void {
    if (!set || set.size === 0) return;
    const due = [...set];
    set.clear();
    for (const ticker of due) ticker.dueAt = Number.POSITIVE_INFINITY;
    for (const ticker of due) this.#run(ticker);
  }

  #run(ticker: Ticker): void {
    try {
      const delayMs = ticker.tick(this.now);
      if (delayMs !== Number.POSITIVE_INFINITY) this.within(ticker, delayMs);
    } catch (error) {
      this.#onFault(error);
    }
  }
}
