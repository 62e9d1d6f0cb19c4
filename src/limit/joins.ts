import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import { itemRefusal } from '../protocol/batch.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './reserve.lua');

export type Amounts = Readonly<Record<string, number>>;

export interface Ask {
  readonly name: string;
  readonly cost: Amounts;
  readonly reservation: string;
  readonly waitMs: number;
  readonly leaseMs: number | undefined;
  readonly weight: number;
}

type Item = readonly (string | number)[];
/** `granted|waiting|settled` and what belongs to it, or one `!CODE …`. */
type Words = readonly string[];

const overflow = (): Error => new Refusal('UNAVAILABLE', 'too many requests wait for Redis', { afterMs: 200 });

/**
 * Reserves and settles of all connections of a namespace: what arrives in one turn of the event loop is one script, in
 * the order in which it came. Who settles and reserves in one breath is served in that order.
 */
export class LimitJoins {
  readonly #namespace: Namespace;
  readonly #lookAfter: (ms: number) => void;
  readonly #joiner: Joiner<Item, Words>;

  /** `lookAfter`: in so many milliseconds a refill lets somebody in, and a sweep must see to it. */
  constructor(namespace: Namespace, lookAfter: (ms: number) => void) {
    this.#namespace = namespace;
    this.#lookAfter = lookAfter;
    this.#joiner = new Joiner((items) => this.#run(items), {
      itemsMax: 100,
      callsMax: 2,
      waitingMax: 50_000,
      overflow,
    });
  }

  reserve({ id, binding }: SessionRef, ask: Ask): Promise<Words> {
    const { name, cost, reservation, waitMs, leaseMs, weight } = ask;
    const amounts = flat(cost);
    // What makes a request the same one; how long it waits is not part of it.
    const key = `${leaseMs ?? ''} ${weight} ${JSON.stringify(amounts)}`;
    const head = ['r', id, binding, reservation, name, waitMs, leaseMs ?? '', weight, key];
    return this.#one([...head, amounts.length / 2, ...amounts]);
  }

  settle({ id, binding }: SessionRef, reservation: string, actual: Amounts): Promise<Words> {
    const amounts = flat(actual);
    return this.#one(['s', id, binding, reservation, amounts.length / 2, ...amounts]);
  }

  /** What a script said of the next moment: milliseconds, or ''. */
  look(soonest: string): void {
    if (soonest !== '') this.#lookAfter(Number(soonest));
  }

  /** Resolves when nothing of anybody is on its way to Redis. */
  idle(): Promise<void> {
    return this.#joiner.idle();
  }

  async #one(item: Item): Promise<Words> {
    const [words] = await this.#joiner.add([item]);
    if (words![0]!.startsWith('!')) throw itemRefusal(words![0]!);
    return words!;
  }

  async #run(items: readonly Item[]): Promise<Words[]> {
    const [results, soonest] = await this.#namespace.call<[string[][], string]>(script, items.flat());
    this.look(soonest);
    return results;
  }
}

/** By name: the same amounts in another order are the same. */
const flat = (amounts: Amounts): (string | number)[] =>
  Object.entries(amounts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flat();
