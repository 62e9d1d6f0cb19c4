import { slackMs } from '../agents/clock.js';
import { overlapsOf } from '../agents/sweep.js';
import { type OnceOp, onceModel } from '../linear/once.js';
import { linearize } from '../linear/search.js';
import type { TapEvent } from '../tap.js';
import type { Act } from './plan.js';
import { show, type Try } from './tries.js';

const statesMax = 50_000;

/** What the log says of one beginning, on the clock of the agents. */
interface Told {
  readonly key: string;
  readonly agent: string;
  readonly fence: number;
  readonly as: 'new' | 'unknown';
  readonly at: number;
  end?: { readonly word: string; readonly at: number };
}

/**
 * Acts under once keys: never two at a time by what the agents knew, and each key's questions and answers have an order that
 * a ledger allows. What nobody heard the answer of is filled in from the log.
 */
export function keysOf(acts: readonly Try<Act>[], all: readonly TapEvent[], clock: (at: number) => number) {
  const told = beginningsOf(all, clock);
  const problems: string[] = [];
  let ordered = 0;
  let unordered = 0;
  for (const key of new Set(acts.map(({ round }) => round.key))) {
    const ours = acts.filter(({ round }) => round.key === key);
    const begun = ours.filter(({ had }) => had);
    const intervals = begun.map((one) => ({ ...one, from: one.had!.from, to: one.had!.to }));
    problems.push(
      ...overlapsOf(intervals, (active) => (active.length > 1 ? `acts under ${key}` : undefined), show),
      ...begun.flatMap((one) => strange(one, told.get(`${key} ${one.had!.fence}`))),
    );
    const ops = [...beginningOps(key, ours, told), ...answersOf(ours)];
    const { ok, undecided, stuck } = linearize(ops, onceModel(ours[0]!.round.keepMs), statesMax);
    if (undecided) unordered += ops.length;
    else ordered += ops.length;
    if (!ok && !undecided)
      problems.push(`${key}: no order of ${ops.length} operations explains it; stuck at ${JSON.stringify(stuck)}`);
  }
  return { problems, ordered, unordered };
}

function beginningsOf(all: readonly TapEvent[], clock: (at: number) => number): ReadonlyMap<string, Told> {
  const told = new Map<string, Told>();
  for (const { type, data, at } of all) {
    const { key, fence, agent, state, outcome, reason } = data;
    const one = `${key} ${fence}`;
    if (type === 'once.began') told.set(one, { key, agent, fence, as: state, at: clock(at) });
    else if (/^once\.(finished|failed|unknown)$/.test(type))
      Object.assign(told.get(one) ?? {}, { end: { word: outcome ?? reason ?? 'done', at: clock(at) } });
  }
  return told;
}

/** Nobody acts under what was never given, nor is sure of it after it was over. */
function strange(one: Try<Act>, told: Told | undefined): string[] {
  if (!told) return [`${show(one)} acts under ${one.round.key}, which nobody gave it`];
  if (!told.end || one.had!.to <= told.end.at + 1 + slackMs) return [];
  return [`${show(one)} is sure of ${one.round.key}, which ended at ${told.end.at.toFixed(1)} (${told.end.word})`];
}

/** Words of the holder itself; all others come when it is gone. */
const words: Readonly<Record<string, 'done' | 'new' | 'unknown'>> = {
  done: 'done',
  final: 'done',
  retryable: 'new',
  reported: 'unknown',
};
const saidAs = (word: string): string => (word === 'reported' ? 'unknown' : word);
const endOf = (word: string, value: string | undefined): string => `${word === 'final' ? 'failed' : word} ${value}`;

function beginningOps(key: string, acts: readonly Try<Act>[], told: ReadonlyMap<string, Told>): OnceOp[] {
  const known = new Map(acts.flatMap((one) => (one.had ? [[one.had.fence, one] as const] : [])));
  const ops: OnceOp[] = [];
  for (const { key: of, agent, fence, as, at, end } of told.values()) {
    if (of !== key) continue;
    const one = known.get(fence);
    const [call, ret] = one ? [one.askedAt, one.had!.from] : [at - slackMs, at + 1 + slackMs];
    ops.push({ what: 'begin', agent, fence, as: one?.had?.as ?? as, call, ret });
    if (!end) continue;
    const over = end.at + 1 + slackMs;
    const to = words[end.word];
    // By the word of its holder: between saying it and being answered. Else at any time since it was last sure.
    const from = (to && one?.did?.at) ?? one?.had?.to ?? at - slackMs;
    const heard = to && one?.how === saidAs(end.word) ? one.endedAt! : over;
    const value = endOf(end.word, one?.did?.value);
    ops.push({ what: 'close', agent, fence, to: to ?? 'unknown', value, call: from, ret: Math.max(from, heard) });
  }
  return ops;
}

/** What those heard who did not come to act themselves. */
const answersOf = (acts: readonly Try<Act>[]): OnceOp[] =>
  acts.flatMap(({ agent, had, askedAt: call, endedAt: ret, how, value }): OnceOp[] => {
    if (had || ret === undefined) return [];
    if (how === 'HELD') return [{ what: 'busy', agent, call, ret }];
    return how === 'done' || how === 'failed' ? [{ what: 'answer', agent, value: `${how} ${value}`, call, ret }] : [];
  });
