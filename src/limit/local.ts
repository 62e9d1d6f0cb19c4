import { type Amounts, type Ask, flat } from './ask.js';
import { type Definition, modeOf } from './model.js';

/** What this daemon has granted by itself, until Redis hears of it. */
interface Given {
  readonly session: string;
  readonly ask: Ask;
  readonly fence: number;
  actual: Amounts | undefined;
}

interface Charge {
  readonly at: number;
  readonly cost: Amounts;
}

/** Reservations and charges kept while Redis is away; beyond them nothing is granted. */
const givenMax = 10_000;
const definitionsMax = 10_000;

/**
 * What is granted while Redis is away, for limits that have declared a share (`whenDown`): each daemon by itself that
 * share of every dimension, counted strictly over its perMs, and nothing waits. When Redis is back, all of it is charged
 * there (adopt.lua) before anything new is granted.
 */
export class LocalLimits {
  readonly #definitions = new Map<string, Definition>();
  readonly #given = new Map<string, Given>();
  readonly #charges = new Map<string, Charge[]>();
  #fence = 0;

  /** A limit as it is now; only those with a share are of use here. */
  learn(definition: Definition): void {
    const { name, whenDown } = definition;
    if (whenDown === 'closed') this.#definitions.delete(name);
    else if (this.#definitions.size < definitionsMax) this.#definitions.set(name, definition);
  }

  get isEmpty(): boolean {
    return this.#given.size === 0;
  }

  /** The words of a script for the same ask, or undefined: the limit is closed. Its fence is above `seen`, the highest there was. */
  reserve(session: string, ttlMs: number, ask: Ask, seen: number): string[] | undefined {
    const definition = this.#definitions.get(ask.name);
    if (!definition || this.#given.size >= givenMax) return undefined;
    const known = this.#given.get(ask.reservation);
    if (known && (known.session !== session || known.actual)) return ['!CONFLICT'];
    if (!known && Object.keys(ask.cost).some((name) => !Object.hasOwn(definition.dimensions, name)))
      return ['!INVALID'];
    const now = Date.now();
    if (!known && !this.#fits(definition, ask.cost, now)) {
      return [`!LIMITED {"message":"Redis is away, and the local share is used up","afterMs":1000}`];
    }
    const fence = known?.fence ?? Math.max(this.#fence + 1, seen + 1, now * 1000);
    if (!known) {
      this.#fence = fence;
      this.#given.set(ask.reservation, { session, ask, fence, actual: undefined });
      this.#chargesOf(ask.name).push({ at: now, cost: ask.cost });
    }
    const validMs = Math.min(ask.leaseMs ?? ttlMs, ttlMs);
    return ['granted', String(fence), String(validMs), this.#remaining(definition, now), '0', 'degraded'];
  }

  /** Undefined: it was not granted here. */
  settle(session: string, reservation: string, actual: Amounts): string[] | undefined {
    const given = this.#given.get(reservation);
    const definition = given?.session === session ? this.#definitions.get(given.ask.name) : undefined;
    if (!given || !definition) return undefined;
    given.actual ??= actual;
    return ['settled', this.#remaining(definition, Date.now()), ''];
  }

  /** Everything that Redis has to be told, as adopt.lua reads it; `clear` it once it was. */
  rows(): (string | number)[][] {
    return [...this.#given].map(([id, { session, ask, fence, actual }]) => {
      const spent = actual ? { ...ask.cost, ...actual } : ask.cost;
      const amounts = flat(spent);
      const head = [actual ? 's' : 'h', id, session, ask.name, fence, ask.leaseMs ?? '', ask.weight, keyOf(ask)];
      return [...head, amounts.length / 2, ...amounts];
    });
  }

  clear(ids: readonly string[]): void {
    for (const id of ids) this.#given.delete(id);
    if (this.isEmpty) this.#charges.clear();
  }

  #fits(definition: Definition, cost: Amounts, now: number): boolean {
    return Object.entries(cost).every(([name, n]) => n <= this.#left(definition, name, now));
  }

  #left(definition: Definition, name: string, now: number): number {
    const { amount, perMs } = definition.dimensions[name]!;
    const share = definition.whenDown === 'closed' ? 0 : definition.whenDown.share;
    const most = Math.floor(amount * share);
    if (modeOf(definition.kind, perMs) === 'held') {
      let inUse = 0;
      for (const { ask, actual } of this.#given.values())
        if (ask.name === definition.name && !actual) inUse += ask.cost[name] ?? 0;
      return most - inUse;
    }
    let used = 0;
    for (const { at, cost } of this.#chargesOf(definition.name))
      if (perMs === undefined || now - at <= perMs) used += cost[name] ?? 0;
    return most - used;
  }

  #remaining(definition: Definition, now: number): string {
    const names = Object.keys(definition.dimensions);
    return JSON.stringify(Object.fromEntries(names.map((name) => [name, this.#left(definition, name, now)])));
  }

  #chargesOf(name: string): Charge[] {
    const charges = this.#charges.get(name) ?? [];
    this.#charges.set(name, charges);
    return charges;
  }
}

/** What makes a request the same one; how long it waits is not part of it. */
export const keyOf = ({ leaseMs, weight, cost }: Ask): string =>
  `${leaseMs ?? ''} ${weight} ${JSON.stringify(flat(cost))}`;
