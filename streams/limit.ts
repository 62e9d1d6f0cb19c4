import { filter, map, type Observable, scan } from 'rxjs';
import type { FeedEvent, LogBatch, LogEvent } from '../src/redis/log-entry.js';
import { ownEvents } from './operators/own-events.js';

/** A limit has to be looked at by `at` (milliseconds since 1970, Redis' clock); 0: at once. */
export interface LimitDue {
  readonly kind: 'limitDue';
  readonly at: number;
}

/** A limit is this from now on. */
export interface LimitDefined {
  readonly kind: 'limitDefined';
  readonly name: string;
  readonly definition: Readonly<Record<string, unknown>>;
}

/** A line for the session that waited for a reservation, or had it. */
export type LimitPush =
  | {
      readonly kind: 'limitGranted';
      readonly session: string;
      readonly reservation: string;
      readonly name: string;
      readonly fence: number;
      readonly validMs: number;
    }
  | { readonly kind: 'limitWaitEnded'; readonly session: string; readonly reservation: string; readonly reason: string }
  | {
      readonly kind: 'limitLost';
      readonly session: string;
      readonly name: string;
      readonly reservation: string;
      readonly fence: number;
      readonly reason: string;
    };

interface Data {
  readonly limit: string;
  readonly reservation: string;
  readonly session: string;
  readonly fence?: number;
  readonly validMs?: number;
  readonly waitedMs?: number;
  readonly reason?: string;
  readonly endsAt?: string;
  readonly resumesAt?: string;
  readonly untilAt?: string;
  readonly dimensions?: Readonly<Record<string, Gauge>>;
  readonly waiting?: number;
  readonly definition?: Readonly<Record<string, unknown>>;
}

const dueTypes = new Set(['limit.waiting', 'limit.granted', 'limit.waitEnded', 'limit.lost', 'limit.penalized']);

/** A wait names its own moments; behind an end there is another first in the queue, whose moment only Redis knows. */
function momentOf({ type, data }: LogEvent): number {
  const { endsAt, resumesAt, untilAt } = data as Data;
  if (type === 'limit.penalized') return Date.parse(untilAt ?? '');
  if (type !== 'limit.waiting') return 0;
  return Math.min(...[endsAt, resumesAt].flatMap((text) => (text === undefined ? [] : [Date.parse(text)])));
}

/**
 *     batch$     --[waiting, ends 5s, resumes 3s]----[granted after waiting]--[waiting, by another daemon]--
 *     limitDue$  --{3s}------------------------------{0}----------------------------------------------------
 *
 * Only the daemon that made it takes care of the moment; if it dies, any daemon's sweep does.
 */
export const limitDue$ = (batch$: Observable<LogBatch>, daemon: string): Observable<LimitDue> =>
  batch$.pipe(
    map((batch) => batch.filter((item) => item.kind === 'entry' && item.by === daemon)),
    ownEvents(dueTypes),
    map((events) => ({ kind: 'limitDue', at: Math.min(...events.map(momentOf)) }) as const),
    filter(({ at }) => Number.isFinite(at)),
  );

/**
 *     batch$         --[defined m1]--[gauge m1]--[defined m1, m2]--
 *     limitDefined$  --[m1]----------------------[m1, m2]----------
 */
export const limitDefined$ = (batch$: Observable<LogBatch>): Observable<readonly LimitDefined[]> =>
  batch$.pipe(
    ownEvents(new Set(['limit.defined'])),
    map((events) =>
      events.map(({ data }) => {
        const { limit: name, definition = {} } = data as Data;
        return { kind: 'limitDefined', name, definition } as const;
      }),
    ),
    filter((list) => list.length > 0),
  );

// Not sessionLost: such a session has no socket any more that is its own. Not closed: its client did it.
const taken = new Set(['disconnected', 'leaseLapsed', 'revoked']);
const pushTypes = new Set(['limit.granted', 'limit.waitEnded', 'limit.lost']);

function pushOf({ type, data }: LogEvent): LimitPush[] {
  const { limit: name, reservation, session, fence = 0, validMs = 0, waitedMs, reason = '' } = data as Data;
  if (type === 'limit.granted') {
    // Granted by the step in which it began to wait: the reply said so.
    return waitedMs === undefined ? [] : [{ kind: 'limitGranted', session, reservation, name, fence, validMs }];
  }
  if (type === 'limit.waitEnded') return [{ kind: 'limitWaitEnded', session, reservation, reason }];
  return taken.has(reason) ? [{ kind: 'limitLost', session, name, reservation, fence, reason }] : [];
}

/**
 *     batch$      --[waiting]--[granted]-------[waiting, granted at once]--[waitEnded]--------[lost, leaseLapsed]--[lost, closed]--
 *     limitPush$  -------------[limitGranted]------------------------------[limitWaitEnded]---[limitLost]--------------------------
 */
export const limitPush$ = (batch$: Observable<LogBatch>): Observable<readonly LimitPush[]> =>
  batch$.pipe(
    ownEvents(pushTypes),
    map((events) => events.flatMap(pushOf)),
    filter((pushes) => pushes.length > 0),
  );

export interface Gauge {
  readonly amount: number;
  readonly used: number;
  readonly reserved: number;
}

/** How full a limit is, as the log told it last. */
export interface LimitView {
  readonly dimensions: Readonly<Record<string, Gauge>>;
  readonly waiting: number;
  readonly saturated: boolean;
  /** Nothing is granted before this, and then to one alone. */
  readonly pausedUntilAt?: string;
}
export type Limits = ReadonlyMap<string, LimitView>;

const idle: LimitView = { dimensions: {}, waiting: 0, saturated: false };
const viewTypes = new Set([...dueTypes, 'limit.gauge', 'limit.saturated', 'limit.recovered']);

function next(view: LimitView, type: string, data: Data): LimitView {
  switch (type) {
    case 'limit.gauge':
      return { ...view, dimensions: data.dimensions ?? {}, waiting: data.waiting ?? 0 };
    case 'limit.waiting':
      return { ...view, waiting: view.waiting + 1 };
    case 'limit.granted':
    case 'limit.waitEnded':
      return { ...view, waiting: Math.max(0, view.waiting - 1) };
    case 'limit.saturated':
      return { ...view, saturated: true };
    case 'limit.penalized':
      return { ...view, pausedUntilAt: data.untilAt ?? '' };
    case 'limit.recovered': {
      const { pausedUntilAt: _, ...rest } = view;
      return data.reason === 'probe' ? rest : { ...view, saturated: false };
    }
    default:
      return view;
  }
}

/** The limits after some more events. */
export function limitView(limits: Limits, events: readonly Pick<FeedEvent, 'type' | 'data'>[]): Limits {
  const after = new Map(limits);
  for (const { type, data } of events) {
    if (!viewTypes.has(type)) continue;
    const { limit } = data as Data;
    after.set(limit, next(after.get(limit) ?? idle, type, data as Data));
  }
  return after;
}

/**
 *     batch$   --[gauge m1: 3 of 60]--[saturated m1]--[a waits for m1]--[a granted]--
 *     limits$  --{m1: 3}--------------{m1: 3, full}---{m1: 3, full, 1}--{m1: 3, full}
 */
export const limits$ = (batch$: Observable<LogBatch>): Observable<Limits> =>
  batch$.pipe(
    ownEvents(viewTypes),
    scan((limits: Limits, events) => limitView(limits, events), new Map() as Limits),
  );
