import { slackMs } from '../agents/clock.js';
import { ttlDefaultMs } from '../agents/stage.js';
import { type LockOp, lockModel } from '../linear/lock.js';
import { linearize } from '../linear/search.js';
import type { TapEvent } from '../tap.js';
import type { Try } from './held.js';
import type { Capacities, Want } from './words.js';

/** More than this of one lock is not looked through, nor more states than that: what is judged must come to an end. */
const opsMax = 2000;
const statesMax = 50_000;

/** An instant of the log on the clock of the agents. */
type Clock = (at: number) => number;

/** A request as the log tells it, on the clock of the agents. */
interface Told {
  readonly agent: string;
  readonly wants: Want[];
  fence: number;
  waitsFrom?: number;
  waitsTo?: number;
  from?: number;
  to?: number;
  released?: boolean;
}

/**
 * The history of each lock as its agents saw it, through the search for an order. Answers that never came are filled in
 * from the log, as loosely as what is known of them: an agent that was killed or cut off may have held something without
 * ever hearing of it, and what it did not give back itself ended at some time after it was last sure.
 */
export function linearOf(tries: readonly Try[], all: readonly TapEvent[], capacities: Capacities, clock: Clock) {
  const told = requestsOf(all, clock);
  const ops = [...takesOf(tries, told), ...waitsOf(told), ...busiesOf(tries, all, clock)];
  const problems: string[] = [];
  let [ordered, unordered] = [0, 0];
  for (const [name, history] of byLock(ops)) {
    if (history.length > opsMax) {
      unordered += history.length;
      continue;
    }
    const { ok, undecided, stuck } = linearize(history, lockModel(capacities), statesMax);
    if (undecided) unordered += history.length;
    else ordered += history.length;
    if (!ok && !undecided)
      problems.push(
        `${name}: no order of ${history.length} operations explains it; stuck at ${stuck.map(show).join('; ')}`,
      );
  }
  return { problems: [...problems, ...lateOf(tries, told)], ordered, unordered };
}

function requestsOf(all: readonly TapEvent[], clock: Clock): ReadonlyMap<string, Told> {
  const requests = new Map<string, Told>();
  for (const { type, data, at } of all) {
    if (!/^lock\.(waiting|granted|waitEnded|released|lost)$/.test(type)) continue;
    const { grant, agent, lock: name, mode, permits, fence } = data;
    const one: Told = requests.get(grant) ?? { agent, wants: [], fence: 0 };
    requests.set(grant, one);
    const when = clock(at);
    if ((type === 'lock.waiting' || type === 'lock.granted') && !one.wants.some((want) => want.name === name))
      one.wants.push({ name, ...(mode ? { mode } : {}), ...(permits ? { permits } : {}) });
    if (type === 'lock.waiting') one.waitsFrom = when;
    else if (type === 'lock.waitEnded') one.waitsTo = when;
    else if (type !== 'lock.granted') Object.assign(one, { to: when, released: type === 'lock.released' });
    // Claimed back after a loss of the store it is the same hold.
    else if (data.reclaimed === undefined && one.from === undefined)
      Object.assign(one, { from: when, fence, ...(one.waitsFrom === undefined ? {} : { waitsTo: when }) });
  }
  return requests;
}

function takesOf(tries: readonly Try[], told: ReadonlyMap<string, Told>): LockOp[] {
  const known = new Map(tries.flatMap((one) => (one.held ? [[one.held.grant, one] as const] : [])));
  const ops: LockOp[] = [];
  for (const [grant, { agent, wants, fence, from, to, released }] of told) {
    if (from === undefined) continue;
    const { held, askedAt, endedAt, how } = known.get(grant) ?? {};
    const [call, ret] = held ? [askedAt!, held.from] : [from - slackMs, from + 1 + slackMs];
    ops.push({ what: 'take', agent, grant, wants, fence: held?.fence ?? fence, call, ret });
    const over = to === undefined ? Number.POSITIVE_INFINITY : to + 1 + slackMs;
    // Given back in order, it was free when the call was answered; else when the log says so.
    const heard = released && how === 'done' ? endedAt! : over;
    const first = held ? held.to : from - slackMs;
    ops.push({ what: 'end', agent, grant, call: first, ret: Math.max(first, heard) });
  }
  return ops;
}

const waitsOf = (told: ReadonlyMap<string, Told>): LockOp[] =>
  [...told.values()].flatMap(({ agent, wants, waitsFrom, waitsTo = Number.POSITIVE_INFINITY }) =>
    waitsFrom === undefined
      ? []
      : [{ what: 'wait', agent, wants, call: waitsFrom - slackMs, ret: waitsTo + 1 + slackMs }],
  );

/** Refused without a wait. After a loss of the store everybody is, for as long as a session lives. */
function busiesOf(tries: readonly Try[], all: readonly TapEvent[], clock: Clock): LockOp[] {
  const losses = all.filter(({ type }) => type === 'epoch.began').map(({ at }) => clock(at));
  return tries.flatMap(({ agent, locks: wants, waitMs, askedAt: call, endedAt: ret, how }) => {
    if (how !== 'HELD' || waitMs > 0 || ret === undefined) return [];
    const graced = losses.some((at) => call < at + 2 * ttlDefaultMs && ret > at - slackMs);
    return graced ? [] : [{ what: 'busy', agent, wants, call, ret }];
  });
}

/** A lock is judged by itself; paths lie in each other and are one. Of several at once nobody knows which was busy. */
function byLock(ops: readonly LockOp[]): Map<string, LockOp[]> {
  const of = ({ name }: Want): string => (name.startsWith('path:') ? 'path' : name);
  const names = new Map<string, Set<string>>();
  for (const op of ops) if (op.what === 'take') names.set(op.grant, new Set(op.wants.map(of)));
  const found = new Map<string, LockOp[]>();
  const add = (name: string, op: LockOp): void => void found.set(name, [...(found.get(name) ?? []), op]);
  for (const op of ops) {
    if (op.what === 'end') for (const name of names.get(op.grant)!) add(name, op);
    else {
      const touched = new Set(op.wants.map(of));
      if (op.what === 'busy' && touched.size > 1) continue;
      for (const name of touched) add(name, { ...op, wants: op.wants.filter((want) => of(want) === name) });
    }
  }
  return found;
}

/** Nobody is sure of a lock after the server has given it away. */
function lateOf(tries: readonly Try[], told: ReadonlyMap<string, Told>): string[] {
  return tries.flatMap(({ held }) => {
    const over = held && told.get(held.grant)?.to;
    if (!held || over === undefined || held.to <= over + 1 + slackMs) return [];
    return [
      `${held.agent}#${held.number} is sure of ${held.grant} at ${held.to.toFixed(1)}, and it was over at ${over.toFixed(1)}`,
    ];
  });
}

function show(op: LockOp): string {
  const what = op.what === 'end' ? op.grant : JSON.stringify(op.wants);
  const under = op.what === 'take' ? ` as ${op.grant} under ${op.fence}` : '';
  return `${op.agent} ${op.what} ${what}${under} (${op.call.toFixed(1)} to ${op.ret.toFixed(1)})`;
}
