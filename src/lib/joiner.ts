/** What one call carries of a group. */
interface Part<Item, Result> {
  readonly group: Group<Item, Result>;
  readonly from: number;
  readonly count: number;
}

interface Group<Item, Result> {
  readonly items: readonly Item[];
  readonly bytes: readonly number[];
  /** By item: calls may end in another order than they began. */
  readonly results: Result[];
  taken: number;
  /** Items without a result yet. */
  open: number;
  readonly resolve: (results: Result[]) => void;
  readonly reject: (error: unknown) => void;
  failed: boolean;
  /** Who waits for nothing but that it has an answer. */
  passed: (() => void)[] | undefined;
}

export interface JoinerBounds<Item> {
  readonly itemsMax: number;
  readonly callsMax: number;
  readonly waitingMax: number;
  /** What an item weighs, roughly; without it only items are counted. */
  readonly sizeOf?: (item: Item) => number;
  readonly bytesMax?: number;
  readonly waitingBytesMax?: number;
  readonly overflow: () => Error;
}

/** `more`: others wait behind these, and go next. */
type Run<Item, Result> = (items: Item[], more: boolean) => Promise<Result[]>;

/** Fewer items are not shared out: a call costs as much as ten of them. */
const shareMin = 16;

/**
 * Joins what arrives in one turn of the event loop into one call, or into as many as may go, a turn apart. While `callsMax` calls are on their way, arrivals
 * wait: under load the batch grows by itself and a lone item waits for nobody.
 * Bounded by `itemsMax` and `bytesMax` a call (scripts must stay short; a lone larger item goes alone), and by `waitingMax`
 * items and `waitingBytesMax` in all, beyond which `add` rejects.
 */
export class Joiner<Item, Result> {
  readonly #run: Run<Item, Result>;
  readonly #itemsMax: number;
  readonly #callsMax: number;
  readonly #waitingMax: number;
  readonly #bounds: JoinerBounds<Item>;
  readonly #overflow: () => Error;
  #groups: Group<Item, Result>[] = [];
  #waiting = 0;
  #waitingBytes = 0;
  readonly #calls = new Set<Promise<void>>();
  #scheduled = false;
  readonly #idlers: (() => void)[] = [];

  constructor(run: Run<Item, Result>, bounds: JoinerBounds<Item>) {
    this.#run = run;
    this.#itemsMax = bounds.itemsMax;
    this.#callsMax = bounds.callsMax;
    this.#waitingMax = bounds.waitingMax;
    this.#bounds = bounds;
    this.#overflow = bounds.overflow;
  }

  /** Resolves with one result an item, in order; rejects if any call that carried some of them failed. */
  add(items: readonly Item[]): Promise<Result[]> {
    if (items.length === 0) return Promise.resolve([]);
    const { sizeOf, waitingBytesMax = Number.POSITIVE_INFINITY } = this.#bounds;
    const bytes = sizeOf ? items.map(sizeOf) : [];
    const sum = bytes.reduce((all, one) => all + one, 0);
    if (this.#waiting + items.length > this.#waitingMax || this.#waitingBytes + sum > waitingBytesMax) {
      return Promise.reject(this.#overflow());
    }
    return new Promise((resolve, reject) => {
      const results = new Array<Result>(items.length);
      this.#groups.push({
        items,
        bytes,
        results,
        taken: 0,
        open: items.length,
        resolve,
        reject,
        failed: false,
        passed: undefined,
      });
      this.#waiting += items.length;
      this.#waitingBytes += sum;
      this.#schedule();
    });
  }

  /** Items that are in no call yet. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Resolves when nothing waits and nothing is on its way. */
  async idle(): Promise<void> {
    while (this.#waiting > 0 || this.#calls.size > 0) await new Promise<void>((resolve) => this.#idlers.push(resolve));
  }

  /** Resolves when all that was added until now has its answer, good or bad; what is added later is not waited for. */
  async passed(): Promise<void> {
    const last = this.#groups.at(-1);
    if (last) {
      last.passed ??= [];
      const { passed } = last;
      await new Promise<void>((resolve) => passed.push(resolve));
    }
    // Groups are taken in their order: those before it have been answered, or are on their way.
    await Promise.all(this.#calls);
  }

  #wakeIdlers(): void {
    if (this.#waiting > 0 || this.#calls.size > 0) return;
    for (const wake of this.#idlers.splice(0)) wake();
  }

  #schedule(): void {
    if (this.#scheduled || this.#calls.size >= this.#callsMax || this.#waiting === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      // A call that failed meanwhile may have taken the rest of its group along.
      if (this.#waiting === 0) return;
      // Shared between the calls that may go, so that one is carried out while the answer of the other is worked on; and
      // a call a turn: two that reach Redis together are answered together.
      const free = (): number => this.#callsMax - this.#calls.size;
      do {
        this.#call(Math.max(shareMin, Math.ceil(this.#waiting / free())));
        // What is not joined goes at once, to keep its place beside what is.
      } while (this.#itemsMax === 1 && this.#waiting > 0 && free() > 0);
      this.#schedule();
    });
  }

  #call(share: number): void {
    const items: Item[] = [];
    const parts: Part<Item, Result>[] = [];
    const { bytesMax = Number.POSITIVE_INFINITY } = this.#bounds;
    let done = 0;
    let bytes = 0;
    for (const group of this.#groups) {
      const from = group.taken;
      while (group.taken < group.items.length && items.length < this.#itemsMax) {
        const size = group.bytes[group.taken] ?? 0;
        if (items.length > 0 && bytes + size > bytesMax) break;
        bytes += size;
        items.push(group.items[group.taken++]!);
      }
      if (group.taken > from) parts.push({ group, from, count: group.taken - from });
      if (group.taken < group.items.length) break;
      done++;
      if (items.length >= share || items.length === this.#itemsMax) break;
    }
    this.#groups.splice(0, done);
    this.#waiting -= items.length;
    this.#waitingBytes -= bytes;
    const call: Promise<void> = this.#answer(items).then(
      (results) => this.#settle(call, parts, results),
      (error) => this.#fail(call, parts, error),
    );
    this.#calls.add(call);
  }

  async #answer(items: Item[]): Promise<Result[]> {
    const results = await this.#run(items, this.#waiting > 0);
    if (results.length === items.length) return results;
    // Better nobody's answer than somebody else's.
    throw new Error(`${items.length} items got ${results.length} results`);
  }

  #settle(call: Promise<void>, parts: readonly Part<Item, Result>[], results: readonly Result[]): void {
    this.#calls.delete(call);
    let at = 0;
    for (const { group, from, count } of parts) {
      for (let i = 0; i < count; i++) group.results[from + i] = results[at++]!;
      group.open -= count;
      if (group.failed || group.open > 0) continue;
      group.resolve(group.results);
      tell(group);
    }
    this.#schedule();
    this.#wakeIdlers();
  }

  /** A group whose call failed is not carried on: its caller must hear that the outcome is unknown, not half of it. */
  #fail(call: Promise<void>, parts: readonly Part<Item, Result>[], error: unknown): void {
    this.#calls.delete(call);
    for (const { group } of parts) {
      if (group.failed) continue;
      group.failed = true;
      const rest = group.items.length - group.taken;
      if (rest > 0) {
        this.#waiting -= rest;
        for (let i = group.taken; i < group.bytes.length; i++) this.#waitingBytes -= group.bytes[i]!;
        this.#groups = this.#groups.filter((other) => other !== group);
      }
      group.reject(error);
      tell(group);
    }
    this.#schedule();
    this.#wakeIdlers();
  }
}

function tell({ passed }: { readonly passed: (() => void)[] | undefined }): void {
  for (const wake of passed ?? []) wake();
}
