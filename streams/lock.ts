import { filter, map, type Observable, scan } from 'rxjs';
import type { FeedEvent, LogBatch, LogEvent } from '../src/redis/log-entry.js';
import { ownEvents } from './operators/own-events.js';

/** The next clock of a lock that this daemon wound is due at `at` (milliseconds since 1970, Redis' clock). */
export interface LockDue {
  readonly kind: 'lockDue';
  readonly at: number;
}

/** A line for the session that waited for a lock, or held it. */
export type LockPush =
  | {
      readonly kind: 'lockGranted';
      readonly session: string;
      readonly grant: string;
      readonly fence: number;
      readonly validMs: number;
      readonly maxHoldMs?: number;
      readonly epoch: string;
    }
  | { readonly kind: 'lockWaitEnded'; readonly session: string; readonly grant: string; readonly reason: string }
  | {
      readonly kind: 'lockLost';
      readonly session: string;
      readonly name: string;
      readonly grant: string;
      readonly fence: number;
      readonly reason: string;
    };

interface Data {
  readonly lock: string;
  readonly locks?: readonly string[];
  readonly grant: string;
  readonly session: string;
  readonly agent: string;
  readonly owner?: string;
  readonly fence?: number;
  readonly validMs?: number;
  readonly maxHoldMs?: number;
  readonly waitedMs?: number;
  readonly reason?: string;
  readonly endsAt?: string;
  readonly notBeforeAt?: string;
}

const dueTypes = new Set(['lock.waiting', 'lock.granted', 'lock.lost']);

/**
 *     batch$    --[waiting, ends 5s; lost, not before 3s]----[granted, no end]--
 *     lockDue$  --{3s}----------------------------------------------------------
 *
 * Only the daemon that made it takes care of the moment; if it dies, any daemon's sweep does.
 */
export const lockDue$ = (batch$: Observable<LogBatch>, daemon: string): Observable<LockDue> =>
  batch$.pipe(
    map((batch) => batch.filter((item) => item.kind === 'entry' && item.by === daemon)),
    ownEvents(dueTypes),
    map((events) => {
      let at = Number.POSITIVE_INFINITY;
      for (const event of events) {
        const { endsAt, notBeforeAt } = event.data as Data;
        for (const moment of [endsAt, notBeforeAt]) if (moment !== undefined) at = Math.min(at, Date.parse(moment));
      }
      return { kind: 'lockDue', at } as const;
    }),
    filter(({ at }) => at < Number.POSITIVE_INFINITY),
  );

// Not sessionLost: such a session has no socket any more that is its own. Not closed: its client did it.
const taken = new Set(['disconnected', 'leaseLapsed', 'maxHold', 'broken', 'revoked']);
const pushTypes = new Set(['lock.granted', 'lock.waitEnded', 'lock.lost']);

/** Several locks of one grant have an event each; what concerns the grant is told with the first. */
const isFirst = ({ lock, locks }: Data): boolean => locks === undefined || locks[0] === lock;

function pushOf(event: LogEvent): LockPush[] {
  const data = event.data as Data;
  const { lock, grant, session, fence = 0, validMs = 0, maxHoldMs, reason = '' } = data;
  if (event.type === 'lock.lost') {
    return taken.has(reason) ? [{ kind: 'lockLost', session, name: lock, grant, fence, reason }] : [];
  }
  if (!isFirst(data)) return [];
  if (event.type === 'lock.waitEnded') return [{ kind: 'lockWaitEnded', session, grant, reason }];
  // Granted at once: the reply said so.
  if (data.waitedMs === undefined) return [];
  const holds = maxHoldMs === undefined ? {} : { maxHoldMs };
  return [{ kind: 'lockGranted', session, grant, fence, validMs, ...holds, epoch: event.epoch }];
}

/**
 *     batch$     --[waiting]--[granted after waiting]--[granted at once]--[waitEnded]--[lost, broken]--
 *     lockPush$  -------------[lockGranted]-------------------------------[lockWaitEnded]--[lockLost]--
 */
export const lockPush$ = (batch$: Observable<LogBatch>): Observable<readonly LockPush[]> =>
  batch$.pipe(
    ownEvents(pushTypes),
    map((events) => events.flatMap(pushOf)),
    filter((pushes) => pushes.length > 0),
  );

/** One grant as the log told it. */
export interface Holding {
  readonly grant: string;
  readonly session: string;
  readonly agent: string;
  readonly owner: string;
  readonly fence: number;
}

/** Who holds a lock and who waits for it, the next one first. */
export interface LockView {
  readonly holders: readonly Holding[];
  readonly waiters: readonly Holding[];
}
export type Locks = ReadonlyMap<string, LockView>;

const free: LockView = { holders: [], waiters: [] };
const without = (list: readonly Holding[], grant: string): readonly Holding[] =>
  list.filter((one) => one.grant !== grant);

function next(view: LockView, type: string, data: Data): LockView {
  const { grant, session, agent, owner = '', fence = 0 } = data;
  const one: Holding = { grant, session, agent, owner, fence };
  switch (type) {
    case 'lock.waiting':
      return { ...view, waiters: [...without(view.waiters, grant), one] };
    case 'lock.granted':
      return { holders: [...without(view.holders, grant), one], waiters: without(view.waiters, grant) };
    case 'lock.waitEnded':
      return { ...view, waiters: without(view.waiters, grant) };
    default:
      return { ...view, holders: without(view.holders, grant) };
  }
}

const viewTypes = new Set(['lock.waiting', 'lock.granted', 'lock.waitEnded', 'lock.released', 'lock.lost']);

/** The locks after some more events; locks that nobody holds or waits for are left out. */
export function lockView(locks: Locks, events: readonly Pick<FeedEvent, 'type' | 'data'>[]): Locks {
  const after = new Map(locks);
  for (const { type, data } of events) {
    if (!viewTypes.has(type)) continue;
    const { lock } = data as Data;
    const view = next(after.get(lock) ?? free, type, data as Data);
    if (view.holders.length + view.waiters.length > 0) after.set(lock, view);
    else after.delete(lock);
  }
  return after;
}

/**
 *     batch$  --[a waits for x]--[b released x; a granted x]--
 *     locks$  --{x: b | a}-------{x: a |}---------------------
 */
export const locks$ = (batch$: Observable<LogBatch>): Observable<Locks> =>
  batch$.pipe(
    ownEvents(viewTypes),
    scan((locks: Locks, events) => lockView(locks, events), new Map() as Locks),
  );

/** Who waits for whom: owner → the owners that hold, or are ahead, in what it waits for. An owner is `session\0owner`. */
export function waitsFor(locks: Locks): ReadonlyMap<string, ReadonlySet<string>> {
  const graph = new Map<string, Set<string>>();
  const keyOf = ({ session, owner }: Holding): string => `${session}\0${owner}`;
  for (const { holders, waiters } of locks.values()) {
    for (const [place, waiter] of waiters.entries()) {
      const edges = graph.get(keyOf(waiter)) ?? new Set();
      graph.set(keyOf(waiter), edges);
      for (const other of [...holders, ...waiters.slice(0, place)]) {
        if (other.grant !== waiter.grant) edges.add(keyOf(other));
      }
    }
  }
  return graph;
}
