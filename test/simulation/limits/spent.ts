import type { Spend } from './plan.js';
import type { Try } from './tries.js';
import type { Told } from './waits.js';

/** Money: what a budget says is gone is what was settled, and in full what ended without a word. */
export function spentOf(
  spends: readonly Try<Spend>[],
  told: ReadonlyMap<string, Told>,
  limit: string,
  dimension: string,
): number {
  let sum = 0;
  for (const { round, had, tookAt } of spends) {
    if (round.limit !== limit || !had || told.get(had.name)?.lostAt !== undefined) continue;
    const reserved = round.cost[dimension] ?? 0;
    sum += tookAt === undefined ? reserved : (round.actual?.[dimension] ?? reserved);
  }
  // Of some of these no agent ever heard.
  for (const lost of told.values()) if (lost.limit === limit) sum += lost.cost?.[dimension] ?? 0;
  return sum;
}
