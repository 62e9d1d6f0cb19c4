/** So many in any span of `perMs`, as a provider counts it: strictly, by what it has let through itself. */
export class Rate {
  readonly amount: number;
  readonly perMs: number;
  /** When what still counts was let through, oldest first: at most `amount`. */
  readonly #recent: number[] = [];
  #served = 0;
  #refused = 0;
  #firstAt = 0;
  #lastAt = 0;

  constructor(amount: number, perMs: number) {
    this.amount = amount;
    this.perMs = perMs;
  }

  /** Lets one through at `now`, which never goes back, or refuses it. */
  take(now: number): boolean {
    while (this.#recent.length > 0 && now - this.#recent[0]! >= this.perMs) this.#recent.shift();
    if (this.#recent.length >= this.amount) {
      this.#refused++;
      return false;
    }
    this.#recent.push(now);
    if (this.#served === 0) this.#firstAt = now;
    this.#lastAt = now;
    this.#served++;
    return true;
  }

  get served(): number {
    return this.#served;
  }

  get refused(): number {
    return this.#refused;
  }

  /** Milliseconds until there is room for one. */
  roomMs(now: number): number {
    return this.#recent.length < this.amount ? 0 : Math.max(0, this.#recent[0]! + this.perMs - now);
  }

  /**
   * How much of what it allows was used, 0 to 1: the least time in which it lets so many through, by the time it took
   * from the first to the last. 0 if they fit into one span: then it allowed more than was ever asked.
   */
  get share(): number {
    const tookMs = this.#lastAt - this.#firstAt;
    const leastMs = Math.floor((this.#served - 1) / this.amount) * this.perMs;
    return leastMs > 0 ? leastMs / tookMs : 0;
  }
}
