import type { Amounts } from './plan.js';

/** A grant, made at some moment between `from` and `to`. */
export interface Grant {
  readonly who: string;
  readonly from: number;
  readonly to: number;
  readonly cost: Amounts;
  /** What came back of it, at some moment between the two; nothing does of what it did not say. */
  readonly refund?: { readonly actual: Amounts; readonly from: number; readonly to: number };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);
const costOf = ({ cost }: Grant, dimension: string): number => cost[dimension] ?? 0;

/** What comes back of a grant of a dimension; more than was reserved is a debt and no refund. */
const backOf = (grant: Grant, dimension: string): number =>
  Math.max(0, costOf(grant, dimension) - (grant.refund?.actual[dimension] ?? costOf(grant, dimension)));

/** Surely made within a span. */
const within = (grants: readonly Grant[], from: number, to: number): Grant[] =>
  grants.filter((grant) => grant.from >= from && grant.to <= to);

/** What may have come back within a span of grants, whenever those were made. */
const backWithin = (grants: readonly Grant[], dimension: string, from: number, to: number): number =>
  sum(
    grants
      .filter(({ refund }) => refund && refund.from <= to && refund.to >= from)
      .map((grant) => backOf(grant, dimension)),
  );

const list = (grants: readonly Grant[]): string => grants.map(({ who }) => who).join(', ');

/**
 * Strict: in no span of the window is more than the amount granted. A refund goes back to the moment at which it was taken,
 * so it counts from when it may have been told.
 */
export function windowOf(
  grants: readonly Grant[],
  dimension: string,
  amount: number,
  perMs: number,
): string | undefined {
  for (const { from } of grants) {
    // Two clocks of one machine over the span of one window.
    const to = from + perMs - 1;
    const inside = within(grants, from, to);
    const least = sum(
      inside.map((grant) => {
        const back = grant.refund && grant.refund.from <= to ? backOf(grant, dimension) : 0;
        return costOf(grant, dimension) - back;
      }),
    );
    if (least > amount) return `${least} ${dimension} in ${perMs} ms, and there are ${amount}: ${list(inside)}`;
  }
  return undefined;
}

/** In no span is more granted than a full bucket, what flows into it meanwhile, and what comes back. */
export function bucketOf(
  grants: readonly Grant[],
  dimension: string,
  { amount, perMs, burst }: { amount: number; perMs: number; burst: number },
): string | undefined {
  for (const { from } of grants) {
    for (const { to } of grants) {
      if (to <= from) continue;
      const inside = within(grants, from, to);
      const granted = sum(inside.map((grant) => costOf(grant, dimension)));
      const most = burst + (amount * (to - from + 2)) / perMs + backWithin(grants, dimension, from, to);
      if (granted > most)
        return `${granted} ${dimension} in ${(to - from).toFixed(1)} ms, and a bucket has ${Math.floor(most)}: ${list(inside)}`;
    }
  }
  return undefined;
}

/** Until it is reset, no more is granted than what a provider said it has left. */
export function capOf(
  grants: readonly Grant[],
  dimension: string,
  { from, to, remaining, resetMs }: { from: number; to: number; remaining: number; resetMs: number },
): string | undefined {
  const inside = within(grants, to, from + resetMs - 1);
  const granted = sum(inside.map((grant) => costOf(grant, dimension)));
  const most = remaining + backWithin(grants, dimension, from, from + resetMs);
  return granted > most
    ? `${granted} ${dimension}, and the provider had ${remaining} left: ${list(inside)}`
    : undefined;
}

/** Nothing is granted while everybody stops. */
export function pauseOf(
  grants: readonly Grant[],
  { from, to, afterMs }: { from: number; to: number; afterMs: number },
): string | undefined {
  const inside = within(grants, to, from + afterMs - 1);
  return inside.length > 0 ? `granted in a pause of ${afterMs} ms: ${list(inside)}` : undefined;
}
