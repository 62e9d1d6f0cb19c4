import { type Capacities, clash, type Want } from './words.js';

/** What an agent printed of one lock it had: from its first line in the handler to the last moment it was sure of. */
export interface Held {
  readonly agent: string;
  readonly number: string;
  readonly grant: string;
  readonly fence: number;
  readonly locks: readonly Want[];
  readonly from: number;
  to: number;
}

/**
 * At no instant two agents surely hold what cannot be held together: the promise as it is given to holders, judged by what
 * they knew themselves, not by what the server thought.
 */
export function overlapsOf(helds: readonly Held[], capacities: Capacities): string[] {
  // At one instant ends come first: an interval of no length overlaps nothing.
  const moments = helds
    .filter(({ from, to }) => to > from)
    .flatMap((held) => [
      { at: held.from, begins: true, held },
      { at: held.to, begins: false, held },
    ])
    .sort((a, b) => a.at - b.at || Number(a.begins) - Number(b.begins));
  const problems: string[] = [];
  const active = new Set<Held>();
  for (const { begins, held } of moments) {
    if (!begins) {
      active.delete(held);
      continue;
    }
    active.add(held);
    const wrong = clash(
      [...active].map(({ locks }) => locks),
      capacities,
    );
    if (wrong) problems.push(`surely held at one time: ${wrong}: ${[...active].map(show).join(' and ')}`);
  }
  return problems;
}

const show = ({ agent, number, fence, from, to }: Held): string =>
  `${agent}#${number} (fence ${fence}, ${from.toFixed(1)} to ${to.toFixed(1)})`;
