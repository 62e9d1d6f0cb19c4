/** Throws when an invariant of our own code does not hold. Never for input: input is refused, not asserted. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${message}`);
}

/** For values a type cannot prove to be there although the code before makes sure of it. */
export function present<T>(value: T | undefined | null, what: string): T {
  if (value === undefined || value === null) throw new Error(`invariant broken: ${what} is missing`);
  return value;
}
