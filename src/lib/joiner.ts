/** What one call carries of a group. */
interface Part<Item, Result> {
  readonly group: Group<Item, Result>;
  readonly from: number;
  readonly count: number;
}

interface Group<Item, Result> {
  readonly items: readonly Item[];
  /** By item: calls may end in another order than they began. */
  readonly results: Result[];
  taken: number;
  /** Items without a result yet. */
  open: number;
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
  readonly #idlers: (() => void)[] = [];

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
    if (items.length === 0) return Promise.resolve([]);
    if (this.#waiting + items.length > this.#waitingMax) return Promise.reject(this.#overflow());
    return new Promise((resolve, reject) => {
      const results = new Array<Result>(items.length);
      this.#groups.push({ items, results, taken: 0, open: items.length, resolve, reject, failed: false });
      this.#waiting += items.length;
      this.#schedule();
    });
  }

  /** Resolves when nothing waits and nothing is on its way. */
  async idle(): Promise<void> {
    while (this.#waiting > 0 || this.#calls > 0) await new Promise<void>((resolve) => this.#idlers.push(resolve));
  }

  #wakeIdlers(): void {
    if (this.#waiting > 0 || this.#calls > 0) return;
    for (const wake of this.#idlers.splice(0)) wake();
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
    const parts: Part<Item, Result>[] = [];
    let done = 0;
    for (const group of this.#groups) {
      const count = Math.min(group.items.length - group.taken, this.#itemsMax - items.length);
      for (let i = 0; i < count; i++) items.push(group.items[group.taken + i]!);
      parts.push({ group, from: group.taken, count });
      group.taken += count;
      if (group.taken < group.items.length) break;
      done++;
      if (items.length === this.#itemsMax) break;
    }
    this.#groups.splice(0, done);
    this.#waiting -= items.length;
    this.#calls++;
    this.#answer(items).then(
      (results) => this.#settle(parts, results),
      (error) => this.#fail(parts, error),
    );
  }

  async #answer(items: Item[]): Promise<Result[]> {
    const results = await this.#run(items);
    if (results.length === items.length) return results;
    // Better nobody's answer than somebody else's.
    throw new Error(`${items.length} items got ${results.length} results`);
  }

  #settle(parts: readonly Part<Item, Result>[], results: readonly Result[]): void {
    this.#calls--;
    let at = 0;
    for (const { group, from, count } of parts) {
      for (let i = 0; i < count; i++) group.results[from + i] = results[at++]!;
      group.open -= count;
      if (!group.failed && group.open === 0) group.resolve(group.results);
    }
    this.#schedule();
    this.#wakeIdlers();
  }

  /** A group whose call failed is not carried on: its caller must hear that the outcome is unknown, not half of it. */
  #fail(parts: readonly Part<Item, Result>[], error: unknown): void {
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
    this.#wakeIdlers();
  }
}
