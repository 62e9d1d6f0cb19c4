import { filter, map, merge, mergeMap, type Observable } from 'rxjs';
import type { LogBatch } from '../src/redis/log-entry.js';
import { type PressurePush, pressurePush$ } from './backpressure.js';
import { type GiveBack, giveBack$, type SessionPush, sessionPush$ } from './lease.js';
import { type LimitDefined, type LimitDue, type LimitPush, limitDefined$, limitDue$, limitPush$ } from './limit.js';
import { type LockDue, type LockPush, lockDue$, lockPush$ } from './lock.js';
import { type OncePush, oncePush$ } from './once.js';
import { type Dispatch, type Due, dispatch$, due$, type TaskPush, taskPush$ } from './queue.js';

export interface Sources {
  /** The log of one namespace, batch by batch, as this daemon reads it. */
  readonly batch$: Observable<LogBatch>;
  /** This daemon's id: an event names the daemon that caused it, and that one acts at once. */
  readonly daemon: string;
}

/** What the system asks of itself. */
export type Intent = Dispatch | Due | GiveBack | LockDue | LimitDefined | LimitDue | Resync;
/** A part of the log was missed: whatever was concluded from it is asked of Redis anew. */
export interface Resync {
  readonly kind: 'resync';
}
/** What single sockets must hear of. */
export type Push = TaskPush | SessionPush | LockPush | LimitPush | OncePush | PressurePush;

export interface Sinks {
  readonly intents$: Observable<Intent>;
  readonly pushes$: Observable<Push>;
}

/** Read this first: everything that is derived from the log. Pure: no socket, no script, no clock of its own. */
export function main({ batch$, daemon }: Sources): Sinks {
  const resync$ = batch$.pipe(
    filter((batch) => batch.some((item) => item.kind !== 'entry')),
    map(() => ({ kind: 'resync' }) as const),
  );
  return {
    intents$: merge(
      resync$,
      dispatch$(batch$, daemon).pipe(mergeMap((list) => list)),
      due$(batch$, daemon),
      giveBack$(batch$, daemon),
      lockDue$(batch$, daemon),
      limitDue$(batch$, daemon),
      limitDefined$(batch$).pipe(mergeMap((list) => list)),
    ),
    pushes$: merge(
      taskPush$(batch$),
      sessionPush$(batch$),
      lockPush$(batch$),
      limitPush$(batch$),
      oncePush$(batch$),
      pressurePush$(batch$),
    ).pipe(mergeMap((list): readonly Push[] => list)),
  };
}
