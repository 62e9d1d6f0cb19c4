import { drawFaults, type Fault } from '../agents/faults.js';
import type { AgentPlan } from '../agents/process.js';
import { ttlDefaultMs } from '../agents/stage.js';
import { Random } from '../random.js';
import type { Capacities, Want } from './words.js';

/** One try of an agent to take something. */
export interface Round {
  readonly locks: readonly Want[];
  /** Taken while the first is held. */
  readonly inner?: Omit<Round, 'holdMs' | 'restMs' | 'inner'>;
  readonly waitMs: number;
  readonly holdMs: number;
  readonly restMs: number;
  readonly leaseMs?: number;
  readonly maxHoldMs?: number;
  readonly onDisconnect?: 'hold' | 'release';
  /** Given up after that. */
  readonly abortMs?: number;
}

export interface Plan {
  readonly daemons: number;
  readonly agents: readonly AgentPlan<Round>[];
  readonly faults: readonly Fault[];
}

export const capacities: Capacities = new Map([['permits', 4]]);

/** A whole history from a seed: what each agent tries, and what goes wrong meanwhile. */
export function drawPlan(seed: number, options: { readonly faults: number }): Plan {
  const random = new Random(seed);
  const daemons = random.int(1, 2);
  const agents = Array.from({ length: random.int(4, 6) }, (_, i) => ({
    name: `agent-${i}`,
    ttlMs: random.pick([600, 800, ttlDefaultMs]),
    rounds: Array.from({ length: 40 }, () => drawRound(random)),
  }));
  return { daemons, agents, faults: drawFaults(random, options.faults) };
}

function drawRound(random: Random): Round {
  const inner = random.maybe(0.15, () => ({ locks: drawLocks(random), waitMs: random.pick([0, 200, 1000]) }));
  return {
    locks: drawLocks(random),
    waitMs: random.pick([0, 30, 500, 2000, 2000]),
    // Some longer than a session lives without a word: only then a holder that is cut off meets the next one.
    holdMs: random.pick([0, 5, 20, 20, 60, 60, 200, 400, 1500]),
    restMs: random.int(0, 25),
    ...(inner ? { inner } : {}),
    ...optional(
      'leaseMs',
      random.maybe(0.2, () => random.pick([250, 500])),
    ),
    ...optional(
      'maxHoldMs',
      random.maybe(0.1, () => random.pick([150, 300])),
    ),
    ...optional(
      'onDisconnect',
      random.maybe(0.3, () => 'release' as const),
    ),
    ...optional(
      'abortMs',
      random.maybe(0.15, () => random.int(0, 80)),
    ),
  };
}

function drawLocks(random: Random): Want[] {
  const mode = random.pick(['exclusive', 'shared'] as const);
  const name = random.weighted({ mutex: 4, rw: 4, permits: 4, path: 4, several: 3 });
  const permits = random.int(1, 3);
  const path = random.pick(['path:a', 'path:a/b', 'path:a/**', 'path:a/c/d', 'path:b']);
  if (name === 'mutex') return [{ name: random.pick(['m1', 'm2']), mode: 'exclusive' }];
  if (name === 'rw') return [{ name: 'rw', mode }];
  if (name === 'permits') return [{ name: 'permits', permits }];
  if (name === 'path') return [{ name: path, mode }];
  const [one, two] = random.chance(0.5) ? ['m1', 'm2'] : ['m2', 'm1'];
  return [{ name: one!, mode: 'exclusive' }, ...(random.chance(0.5) ? [{ name: 'rw', mode }] : [{ name: two! }])];
}

const optional = <Name extends string, Value>(name: Name, value: Value | undefined): { [N in Name]?: Value } =>
  (value === undefined ? {} : { [name]: value }) as { [N in Name]?: Value };
