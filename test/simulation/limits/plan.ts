import { drawFaults, type Fault } from '../agents/faults.js';
import type { AgentPlan } from '../agents/process.js';
import { ttlDefaultMs } from '../agents/stage.js';
import { Random } from '../random.js';

export type Amounts = Readonly<Record<string, number>>;

/** A call that spends from a limit. */
export interface Spend {
  readonly limit: string;
  readonly cost: Amounts;
  /** What it says it really took; left out: what was reserved. */
  readonly actual?: Amounts;
  readonly waitMs: number;
  readonly holdMs: number;
  readonly restMs: number;
  readonly leaseMs?: number;
  readonly weight?: number;
  readonly abortMs?: number;
  readonly penalizeMs?: number;
  readonly observe?: { readonly dimension: string; readonly remaining: number; readonly resetMs: number };
}

/** An act that must not be done twice. */
export interface Act {
  readonly key: string;
  readonly keepMs: number;
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly holdMs: number;
  readonly restMs: number;
  readonly how: 'done' | 'final' | 'retryable' | 'unknown';
}

export type Round = Spend | Act;
export const isAct = (round: Round): round is Act => 'key' in round;

export interface Plan {
  readonly daemons: number;
  readonly agents: readonly AgentPlan<Round>[];
  readonly faults: readonly Fault[];
}

interface Dimension {
  readonly amount: number;
  readonly perMs?: number;
  readonly burst?: number;
}
interface Definition {
  readonly kind: 'window' | 'bucket' | 'budget';
  readonly dimensions: Readonly<Record<string, Dimension>>;
}

/** Small, so that everybody meets everybody. */
export const definitions: Readonly<Record<string, Definition>> = {
  rate: { kind: 'window', dimensions: { requests: { amount: 6, perMs: 250 } } },
  tokens: { kind: 'window', dimensions: { requests: { amount: 8, perMs: 500 }, tokens: { amount: 900, perMs: 700 } } },
  bucket: {
    kind: 'bucket',
    dimensions: { tokens: { amount: 500, perMs: 500, burst: 300 }, concurrency: { amount: 4 } },
  },
  seats: { kind: 'window', dimensions: { concurrency: { amount: 4 } } },
  purse: { kind: 'budget', dimensions: { usdMicros: { amount: 60_000 }, tokens: { amount: 50_000 } } },
};

/** A whole history from a seed. Without its data Redis knows nothing of what was spent, so it keeps it here. */
export function drawPlan(seed: number, options: { readonly faults: number }): Plan {
  const random = new Random(seed);
  const daemons = random.int(1, 2);
  const agents = Array.from({ length: random.int(4, 6) }, (_, i) => ({
    name: `agent-${i}`,
    ttlMs: random.pick([600, 800, ttlDefaultMs]),
    rounds: Array.from({ length: 100 }, (_, turn) => (random.chance(0.3) ? drawAct(random, turn) : drawSpend(random))),
  }));
  return { daemons, agents, faults: drawFaults(random, options.faults, { flush: 0, killRedis: 2 }) };
}

function drawSpend(random: Random): Spend {
  const limit = random.weighted({ rate: 5, tokens: 3, bucket: 3, seats: 5, purse: 3 });
  const cost = drawCost(random, limit);
  const took = Object.entries(cost).filter(([name]) => name !== 'concurrency');
  const part = random.pick([0, 0.3, 0.9, 1.4]);
  const actual = Object.fromEntries(took.map(([name, n]) => [name, Math.floor(n * part)]));
  const remaining = random.pick([0, 100, 400]);
  const resetMs = random.pick([200, 500]);
  const options = {
    actual: random.maybe(0.5, () => actual),
    leaseMs: random.maybe(0.3, () => random.pick([250, 500])),
    weight: random.maybe(0.3, () => random.pick([0.5, 2, 5])),
    abortMs: random.maybe(0.15, () => random.int(0, 80)),
    penalizeMs: random.maybe(limit === 'rate' ? 0.04 : 0, () => random.pick([100, 300])),
    observe: random.maybe(limit === 'tokens' ? 0.1 : 0, () => ({ dimension: 'tokens', remaining, resetMs })),
  };
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  return {
    limit,
    cost,
    waitMs: random.pick([0, 0, 30, 500, 2000]),
    // Some longer than a session lives without a word.
    holdMs: random.chance(0.04) ? 1200 : random.pick([0, 0, 0, 5, 5, 20, 60, 150]),
    restMs: random.int(0, 15),
    ...given,
  };
}

function drawCost(random: Random, limit: string): Amounts {
  const seats = random.int(1, 3);
  const tokens = random.int(1, 280);
  const requests = random.int(1, 2);
  if (limit === 'rate') return { requests };
  if (limit === 'tokens') return { requests: 1, tokens };
  if (limit === 'bucket') return { tokens, concurrency: requests };
  if (limit === 'seats') return { concurrency: seats };
  return { usdMicros: tokens * 7 + seats, tokens };
}

/** Keys move on with the rounds, so that agents meet at the same ones; some are soon forgotten and come again. */
function drawAct(random: Random, turn: number): Act {
  const lasting = random.chance(0.6);
  const number = random.int(0, 2);
  return {
    key: lasting ? `lasting-${Math.floor(turn / 4) + number}` : `brief-${number}`,
    keepMs: lasting ? 120_000 : 400,
    leaseMs: random.pick([250, 500, 2000]),
    waitMs: random.pick([0, 0, 300, 1500]),
    holdMs: random.chance(0.1) ? 1200 : random.pick([0, 5, 20, 60, 200]),
    restMs: random.int(0, 15),
    how: random.weighted({ done: 5, final: 1, retryable: 2, unknown: 1 }),
  };
}
