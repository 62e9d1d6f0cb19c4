import { filter, map, type Observable } from 'rxjs';
import type { LogBatch, LogEntry, LogEvent } from '../src/redis/log-entry.js';
import { ownEvents } from './operators/own-events.js';

/** Work has become ready: whoever has an idle worker for it asks. */
export interface Dispatch {
  readonly kind: 'dispatch';
  readonly queue: string;
  /** Kind of the tasks; undefined when it may be any (a pause has ended). */
  readonly taskKind: string | undefined;
  readonly count: number;
}

/** The next scheduled task of this daemon's making is due at `at` (milliseconds since 1970, Redis' clock). */
export interface Due {
  readonly kind: 'due';
  readonly at: number;
}

/** A line for the session that holds, or held, a task. */
export interface TaskPush {
  readonly kind: 'revoked' | 'cancel';
  readonly session: string;
  readonly task: string;
  readonly fence: number;
  readonly reason: string;
  readonly graceMs: number;
}

const readyTypes = new Set([
  'task.enqueued',
  'task.ready',
  'task.retried',
  'task.released',
  'task.redriven',
  'task.updated',
  'queue.unpaused',
]);

function becameReady({ type, data }: LogEvent): boolean {
  const { state } = data as { state?: string };
  return type === 'task.ready' || type === 'queue.unpaused' || state === 'ready';
}

/**
 *     batch$     --[enqueued q by other ×2]--[enqueued q by me]--[retried q, ready]--[enqueued q, claimed by other]--
 *     dispatch$  --[{q, 2}]--------------------------------------[{q, 1}]--------------------------------------------
 *
 * An enqueue of this daemon has asked its idle workers in its own script; everything else that becomes ready is told,
 * unless the step that made it ready gave it out.
 */
export const dispatch$ = (batch$: Observable<LogBatch>, daemon: string): Observable<readonly Dispatch[]> =>
  batch$.pipe(
    map((batch) => batch.filter((item) => item.kind === 'entry' && mayNeedDispatch(item, daemon))),
    ownEvents(readyOrGiven),
    map((events) => dispatchesOf(stillReady(events, daemon))),
    filter((list) => list.length > 0),
  );

/** Told by the entry alone: under load nearly all of them are this daemon's enqueues, and are never cut into events. */
function mayNeedDispatch({ types, by }: LogEntry, daemon: string): boolean {
  return types.some((type) => readyTypes.has(type) && !(type === 'task.enqueued' && by === daemon));
}

const readyOrGiven = new Set([...readyTypes, 'task.claimed']);

/** From the last event to the first: a task that is given out later in the same entries is not ready any more. */
function stillReady(events: readonly LogEvent[], daemon: string): LogEvent[] {
  const given = new Set<unknown>();
  const ready: LogEvent[] = [];
  for (const event of events.toReversed()) {
    const { task } = event.data as { task?: string };
    if (event.type === 'task.claimed') given.add(task);
    else if (becameReady(event) && !given.has(task) && !(event.type === 'task.enqueued' && event.by === daemon))
      ready.push(event);
  }
  return ready.reverse();
}

function dispatchesOf(events: readonly LogEvent[]): Dispatch[] {
  const found = new Map<string, Dispatch>();
  for (const event of events) {
    const { queue, kind = '' } = event.data as { queue: string; kind?: string };
    const any = event.type === 'queue.unpaused';
    const key = any ? `${queue}\0\0` : `${queue}\0${kind}`;
    const count = any ? Number.POSITIVE_INFINITY : (found.get(key)?.count ?? 0) + 1;
    found.set(key, { kind: 'dispatch', queue, taskKind: any ? undefined : kind, count });
  }
  return [...found.values()];
}

/** Most tasks are due at once, and their events need not be read for it. */
const namesMoment = /"(?:runAt|nextAt|until)":/;
const dueTypes = new Set(['task.enqueued', 'task.retried', 'task.released', 'task.updated', 'queue.paused']);

/**
 *     batch$  --[enqueued runAt 5s, enqueued runAt 3s]----[retried nextAt 9s]--
 *     due$    --{3s}--------------------------------------{9s}----------------
 *
 * Only the daemon that made it takes care of the moment; if it dies, any daemon's sweep does.
 */
export const due$ = (batch$: Observable<LogBatch>, daemon: string): Observable<Due> =>
  batch$.pipe(
    map((batch) => batch.filter((item) => item.kind === 'entry' && item.by === daemon && namesMoment.test(item.text))),
    ownEvents(dueTypes),
    map((events) => {
      let at = Number.POSITIVE_INFINITY;
      for (const { data } of events) {
        const { runAt, nextAt, until } = data as { runAt?: string; nextAt?: string; until?: string };
        const moment = runAt ?? nextAt ?? until;
        if (moment !== undefined) at = Math.min(at, Date.parse(moment));
      }
      return { kind: 'due', at } as const;
    }),
    filter(({ at }) => at < Number.POSITIVE_INFINITY),
  );

/** Ends that the holder did not bring about itself. */
const takenBy = new Set([
  'sessionLost',
  'leaseLapsed',
  'timedOut',
  'revoked',
  'undelivered',
  'drained',
  'cancelled',
  'deadline',
]);
const pushTypes = new Set([
  'task.cancelRequested',
  'task.retried',
  'task.released',
  'task.dead',
  'task.cancelled',
  'task.expired',
]);

/**
 *     batch$      --[cancelRequested]--[retried, timedOut]--[retried, failed]--
 *     taskPush$   --[cancel]-----------[revoked]--------------------------------
 */
export const taskPush$ = (batch$: Observable<LogBatch>): Observable<readonly TaskPush[]> =>
  batch$.pipe(
    ownEvents(pushTypes),
    map((events) =>
      events.flatMap((event): TaskPush[] => {
        const data = event.data as { session?: string; task: string; fence?: number; reason: string; graceMs?: number };
        const { session, task, fence, reason, graceMs = 0 } = data;
        const kind = event.type === 'task.cancelRequested' ? 'cancel' : 'revoked';
        if (session === undefined || fence === undefined || (kind === 'revoked' && !takenBy.has(reason))) return [];
        return [{ kind, session, task, fence, reason, graceMs }];
      }),
    ),
    filter((pushes) => pushes.length > 0),
  );
