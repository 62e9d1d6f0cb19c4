import { slackMs } from '../agents/clock.js';
import { overlapsOf } from '../agents/sweep.js';
import { type LockOp, lockModel } from '../linear/lock.js';
import { linearize } from '../linear/search.js';
import { bucketOf, capOf, type Grant, pauseOf, windowOf } from './bounds.js';
import { definitions, type Spend } from './plan.js';
import { spentOf } from './spent.js';
import { show, type Try } from './tries.js';
import type { Told } from './waits.js';

const statesMax = 50_000;

/** One limit as limit.list shows it. */
export interface Usage {
  readonly name: string;
  readonly usage: Readonly<Record<string, { amount: number; used: number; reserved: number; remaining: number }>>;
  readonly waiting: number;
}

type Log = ReadonlyMap<string, Told>;
type Clock = (at: number) => number;

/** What was granted of every limit, against what it promises. */
export function granted(spends: readonly Try<Spend>[], told: Log, clock: Clock) {
  const problems: string[] = [];
  let [ordered, unordered] = [0, 0];
  for (const [name, { dimensions }] of Object.entries(definitions)) {
    const ours = spends.filter(({ round, had }) => round.limit === name && had);
    problems.push(...ours.flatMap((one) => strange(one, told, clock)));
    for (const [dimension, { amount }] of Object.entries(dimensions)) {
      const wrong = dimension === 'concurrency' ? [] : ratesOf(name, dimension, ours, told, clock);
      problems.push(...wrong.map((what) => `${name}: ${what}`));
      if (dimension !== 'concurrency') continue;
      problems.push(...seatsOf(name, amount, ours, told, clock));
      const ops = seatOps(ours, told, clock);
      const { ok, undecided, stuck } = linearize(ops, lockModel(new Map([['seats', amount]])), statesMax);
      if (undecided) unordered += ops.length;
      else ordered += ops.length;
      if (!ok && !undecided)
        problems.push(`${name}: no order explains its concurrency; stuck at ${JSON.stringify(stuck)}`);
    }
  }
  return { problems, ordered, unordered };
}

/** How long it was surely its holder's. A broken socket gives its concurrency back early, and nobody can tell the holder. */
function sureTo(one: Try<Spend>, told: Log, clock: Clock): number {
  const { name, to } = one.had!;
  const { early, lostAt = 0 } = told.get(name) ?? {};
  return early ? Math.min(to, clock(lostAt) - slackMs) : to;
}

/** Nobody has what the log says has ended otherwise, under another fence, or before. */
function strange(one: Try<Spend>, told: Log, clock: Clock): string[] {
  const { name, fence } = one.had!;
  const log = told.get(name);
  if (!log) return [];
  const problems: string[] = [];
  if (log.state === 'waitEnded') problems.push(`${show(one)} has ${name}, whose wait ended without a grant`);
  if (log.fence !== undefined && log.fence !== fence)
    problems.push(`${show(one)} has ${name}, given under ${log.fence}`);
  const over = log.lostAt === undefined ? Number.POSITIVE_INFINITY : clock(log.lostAt) + 1 + slackMs;
  if (sureTo(one, told, clock) > over)
    problems.push(`${show(one)} is sure of ${name}, which was lost at ${over.toFixed(1)}`);
  return problems;
}

/** When it was granted, as narrowly as anybody knows, and what came back of it. */
function grantOf(one: Try<Spend>, told: Log, clock: Clock): Grant {
  const { round, had, askedAt, tookAt, endedAt = Number.POSITIVE_INFINITY } = one;
  const log = told.get(had!.name);
  const at = log?.grantedAt === undefined ? undefined : clock(log.grantedAt);
  const from = at === undefined ? askedAt : Math.max(askedAt, at - slackMs);
  const to = at === undefined ? had!.from : Math.min(had!.from, at + 1 + slackMs);
  const settles = tookAt !== undefined && round.actual && log?.lostAt === undefined;
  return {
    who: show(one),
    from,
    to,
    cost: round.cost,
    ...(settles ? { refund: { actual: round.actual!, from: tookAt, to: endedAt } } : {}),
  };
}

function ratesOf(name: string, dimension: string, ours: readonly Try<Spend>[], told: Log, clock: Clock): string[] {
  const { kind, dimensions } = definitions[name]!;
  const { amount, perMs = 0, burst = amount } = dimensions[dimension]!;
  const grants = ours.map((one) => grantOf(one, told, clock));
  const found = [
    kind === 'window' ? windowOf(grants, dimension, amount, perMs) : undefined,
    kind === 'bucket' ? bucketOf(grants, dimension, { amount, perMs, burst }) : undefined,
    ...ours.flatMap(({ noted, round: { observe, penalizeMs: afterMs } }) => [
      noted && observe?.dimension === dimension ? capOf(grants, dimension, { ...noted, ...observe }) : undefined,
      noted && afterMs !== undefined ? pauseOf(grants, { ...noted, afterMs }) : undefined,
    ]),
  ];
  return found.filter((what) => what !== undefined);
}

/** Concurrency as its holders knew it. */
function seatsOf(name: string, amount: number, ours: readonly Try<Spend>[], told: Log, clock: Clock): string[] {
  const intervals = ours.map((one) => ({ ...one, from: one.had!.from, to: sureTo(one, told, clock) }));
  return overlapsOf(
    intervals,
    (active) => {
      const used = active.reduce((sum, { round }) => sum + (round.cost.concurrency ?? 0), 0);
      return used > amount ? `${used} of ${name}, which has ${amount}` : undefined;
    },
    show,
  );
}

/** The same as a history: taken between question and answer, free again by a settle or, unheard, by its loss. */
function seatOps(ours: readonly Try<Spend>[], told: Log, clock: Clock): LockOp[] {
  return ours.flatMap((one): LockOp[] => {
    const { agent, round, had, endedAt } = one;
    const { name: grant, fence } = had!;
    const last = Math.max(sureTo(one, told, clock), one.askedAt);
    const { from, to } = grantOf(one, told, clock);
    const wants = [{ name: 'seats', permits: round.cost.concurrency ?? 0 }];
    const lostAt = told.get(grant)?.lostAt;
    const over = lostAt === undefined ? (endedAt ?? Number.POSITIVE_INFINITY) : clock(lostAt) + 1 + slackMs;
    return [
      { what: 'take', agent, grant, wants, fence, call: from, ret: to },
      { what: 'end', agent, grant, call: last, ret: Math.max(last, over) },
    ];
  });
}

/** At the end everything is settled or lost: nothing is reserved, nobody waits, and what is spent is what was told. */
export function usageOf(limits: readonly Usage[], spends: readonly Try<Spend>[], told: Log): string[] {
  const problems: string[] = [];
  for (const { name, usage, waiting } of limits) {
    if (waiting > 0) problems.push(`at the end ${waiting} wait for ${name}`);
    for (const [dimension, { amount, used, reserved, remaining }] of Object.entries(usage)) {
      if (reserved !== 0) problems.push(`at the end ${reserved} ${dimension} of ${name} are reserved`);
      if (dimension === 'concurrency' && used !== 0)
        problems.push(`at the end ${used} of ${name}'s concurrency are used`);
      if (definitions[name]!.kind !== 'budget') continue;
      const [gone, spent] = [amount - remaining, spentOf(spends, told, name, dimension)];
      if (gone !== spent) problems.push(`${gone} ${dimension} of ${name} are gone, and ${spent} were spent`);
    }
  }
  return problems;
}
