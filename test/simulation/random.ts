/** Numbers from a seed (mulberry32): the same seed gives the same history, whatever machine it runs on. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** From `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(part: number): boolean {
    return this.next() < part;
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)]!;
  }

  /** A value with the given chance, else undefined. */
  maybe<T>(part: number, make: () => T): T | undefined {
    // Drawn in any case, so that what follows does not depend on the outcome.
    const value = make();
    return this.chance(part) ? value : undefined;
  }

  /** One of the names, as often as its weight says. */
  weighted<Name extends string>(weights: Readonly<Partial<Record<Name, number>>>): Name {
    const rows = Object.entries(weights) as [Name, number][];
    let at = this.next() * rows.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of rows) {
      at -= weight;
      if (at < 0) return name;
    }
    return rows.at(-1)![0];
  }
}

/** Takes one of a list by a number in [0, 1) that was drawn before the list was known. */
export function choose<T>(list: readonly T[], at: number): T | undefined {
  return list[Math.floor(at * list.length)];
}
