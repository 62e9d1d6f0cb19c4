import type { AgentProcess } from '../agents/process.js';
import { overlapsOf as overlaps } from '../agents/sweep.js';
import { type Capacities, clash, type Want } from './words.js';

/** What a process prints; see agent.js. */
export interface Line {
  readonly what: 'ready' | 'ask' | 'begin' | 'sure' | 'end' | 'bye';
  readonly number: string | number;
  readonly at: number;
  readonly grant: string;
  readonly fence: number;
  readonly locks: readonly Want[];
  readonly waitMs: number;
  readonly how: string;
}

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

/** One call of an agent, from its question to what became of it. */
export interface Try {
  readonly agent: string;
  readonly locks: readonly Want[];
  readonly waitMs: number;
  readonly askedAt: number;
  held?: Held;
  /** Undefined: it was killed before it heard. */
  endedAt?: number;
  how?: string;
}

export function triesOf({ plan: { name: agent }, lines }: AgentProcess<Line>): Try[] {
  const open = new Map<string, Try>();
  const tries: Try[] = [];
  for (const { what, number: n, at, locks, waitMs, grant, fence, how } of lines) {
    const number = String(n);
    const one = open.get(number);
    if (what === 'ask') {
      const asked = { agent, locks, waitMs, askedAt: at };
      open.set(number, asked);
      tries.push(asked);
    } else if (what === 'begin') one!.held = { agent, number, grant, fence, locks: one!.locks, from: at, to: at };
    else if (what === 'sure') one!.held!.to = at;
    else if (what === 'end') Object.assign(one!, { endedAt: at, how });
  }
  return tries;
}

/**
 * At no instant two agents surely hold what cannot be held together: the promise as it is given to holders, judged by what
 * they knew themselves, not by what the server thought.
 */
export const overlapsOf = (helds: readonly Held[], capacities: Capacities): string[] =>
  overlaps(
    helds,
    (active) =>
      clash(
        active.map(({ locks }) => locks),
        capacities,
      ),
    ({ agent, number, fence, from, to }) =>
      `${agent}#${number} (fence ${fence}, ${from.toFixed(1)} to ${to.toFixed(1)})`,
  );
