interface Group<Item, Result> {
  readonly items: readonly Item[];
  readonly results: Result[];
  taken: number;
  readonly resolve: (results: Result[]) => void;
  readonly reject: (error: unknown) => void;
  failed: boolean;
}

/**
 * Joins what arrives in one turn of the event loop into one call. While `callsMax` calls are on their way, arrivals
 * wait and the next call takes them all: under load the batch grows by itself and a lone item waits for nobody.
 * Bounded by `itemsMax` a call (scripts must stay short) and `waitingMax` in all, beyond which `add` throws.
 */
export class Joiner<Item, Result> {
  readonly #run: (items: Item[]) => Promise<Result[]>;
  readonly #itemsMax: number;
  readonly #callsMax: number;
  readonly #waitingMax: number;
  readonly #overflow: () => Error;
  #groups: Group<Item, Result>[] = [];
  #waiting = 0;
  #calls = 0;
  #scheduled = false;

  constructor(
    run: (items: Item[]) => Promise<Result[]>,
    bounds: { itemsMax: number; callsMax: number; waitingMax: number; overflow: () => Error },
  ) {
    this.#run = run;
    this.#itemsMax = bounds.itemsMax;
    this.#callsMax = bounds.callsMax;
    this.#waitingMax = bounds.waitingMax;
    this.#overflow = bounds.overflow;
  }

  /** Resolves with one result an item, in order; rejects if any call that carried some of them failed. */
  add(items: readonly Item[]): Promise<Result[]> {
    if (this.#waiting + items.length > this.#waitingMax) return Promise.reject(this.#overflow());
    return new Promise((resolve, reject) => {
      this.#groups.push({ items, results: [], taken: 0, resolve, reject, failed: false });
      this.#waiting += items.length;
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#calls >= this.#callsMax || this.#waiting === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      while (this.#waiting > 0 && this.#calls < this.#callsMax) this.#call();
    });
  }

  #call(): void {
    const items: Item[] = [];
    const parts: { group: Group<Item, Result>; count: number }[] = [];
    let done = 0;
    for (const group of this.#groups) {
      const count = Math.min(group.items.length - group.taken, this.#itemsMax - items.length);
      for (let i = 0; i < count; i++) items.push(group.items[group.taken + i]!);
      group.taken += count;
      parts.push({ group, count });
      if (group.taken < group.items.length) break;
      done++;
      if (items.length === this.#itemsMax) break;
    }
    this.#groups.splice(0, done);
    this.#waiting -= items.length;
    this.#calls++;
    this.#run(items).then(
      (results) => this.#settle(parts, results),
      (error) => this.#fail(parts, error),
    );
  }

  #settle(parts: { group: Group<Item, Result>; count: number }[], results: Result[]): void {
    this.#calls--;
    let at = 0;
    for (const { group, count } of parts) {
      for (let i = 0; i < count; i++) group.results.push(results[at++]!);
      if (!group.failed && group.results.length === group.items.length) group.resolve(group.results);
    }
    this.#schedule();
  }

  /** A group whose call failed is not carried on: its caller must hear that the outcome is unknown, not half of it. */
  #fail(parts: { group: Group<Item, Result>; count: number }[], error: unknown): void {
    this.#calls--;
    for (const { group } of parts) {
      if (group.failed) continue;
      group.failed = true;
      const rest = group.items.length - group.taken;
      if (rest > 0) {
        this.#waiting -= rest;
        this.#groups = this.#groups.filter((other) => other !== group);
      }
      group.reject(error);
    }
    this.#schedule();
  }
}
