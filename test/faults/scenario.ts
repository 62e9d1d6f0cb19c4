/**
 * A fault that users of comparable systems met, with the right outcome. `short` are its lengths in `npm test`, `full` the
 * original ones (`npm run sim -- --full`). `run` throws when the outcome is wrong and answers what it measured.
 */
export interface Scenario<Lengths> {
  readonly id: string;
  readonly title: string;
  readonly short: Lengths;
  readonly full: Lengths;
  run(lengths: Lengths): Promise<string>;
}

/** A scenario with its lengths chosen: what a list of different ones holds. */
export interface Case {
  readonly id: string;
  readonly title: string;
  readonly short: () => Promise<string>;
  readonly full: () => Promise<string>;
}

export function scenario<Lengths>({ id, title, short, full, run }: Scenario<Lengths>): Case {
  return { id, title, short: () => run(short), full: () => run(full) };
}

export function check(holds: unknown, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

export const percentile = (values: readonly number[], part: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0;
