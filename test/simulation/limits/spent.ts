import type { Spend } from './plan.js';
import type { Try } from './tries.js';
import type { Told } from './waits.js';

/**
 * Money: what a budget says is gone is what was settled, and in full what ended without a word. Answers what may be gone: of
 * a reservation that its agent never heard of only its loss is known, so it is one of those that agent had asked for.
 */
export function spentOf(
  spends: readonly Try<Spend>[],
  told: ReadonlyMap<string, Told>,
  limit: string,
  dimension: string,
): ReadonlySet<number> {
  const ours = spends.filter(({ round }) => round.limit === limit);
  const known = new Set(ours.flatMap(({ had }) => had?.name ?? []));
  let sure = 0;
  for (const { round, had, tookAt } of ours) {
    if (!had) continue;
    const reserved = round.cost[dimension] ?? 0;
    const isLost = told.get(had.name)?.lostAt !== undefined;
    sure += isLost || tookAt === undefined ? reserved : (round.actual?.[dimension] ?? reserved);
  }
  let sums = new Set([sure]);
  for (const [reservation, { lostAt, agent, limit: of }] of told) {
    if (of !== limit || lostAt === undefined || known.has(reservation)) continue;
    const asked = ours.filter((one) => one.agent === agent && !one.had).map(({ round }) => round.cost[dimension] ?? 0);
    sums = new Set([...sums].flatMap((total) => [...new Set(asked)].map((cost) => total + cost)));
  }
  return sums;
}
