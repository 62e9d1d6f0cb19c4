import { filter, map, type Observable } from 'rxjs';
import type { LogBatch } from '../src/redis/log-entry.js';
import { ownEvents } from './operators/own-events.js';

/** Sessions have ended: their holdings go back. The daemon that ended them begins at once, the others by sweep. */
export interface GiveBack {
  readonly kind: 'giveBack';
}

/** What a socket's session must hear of. */
export type SessionPush =
  | { readonly kind: 'lost'; readonly session: string; readonly reason: string }
  | { readonly kind: 'replaced'; readonly session: string; readonly binding: number };

const endings = new Set(['session.closed', 'session.lost']);

/**
 *     batch$     --[session.lost by me]--[session.lost by other]--
 *     giveBack$  --{giveBack}-------------------------------------
 */
export const giveBack$ = (batch$: Observable<LogBatch>, daemon: string): Observable<GiveBack> =>
  batch$.pipe(
    ownEvents(endings),
    filter((events) => events.some((event) => event.by === daemon)),
    map(() => ({ kind: 'giveBack' }) as const),
  );

// Not session.closed: the socket whose client closed it knows, and would hear of its own doing ahead of the answer.
const sessionTypes = new Set(['session.lost', 'session.resumed']);

/**
 *     batch$        --[session.lost s1]--[session.resumed s2, binding 9]--
 *     sessionPush$  --[lost s1]----------[replaced s2 below 9]------------
 */
export const sessionPush$ = (batch$: Observable<LogBatch>): Observable<readonly SessionPush[]> =>
  batch$.pipe(
    ownEvents(sessionTypes),
    map((events) =>
      events.map((event): SessionPush => {
        const {
          session,
          reason = '',
          binding = 0,
        } = event.data as { session: string; reason?: string; binding?: number };
        return event.type === 'session.resumed'
          ? { kind: 'replaced', session, binding }
          : { kind: 'lost', session, reason };
      }),
    ),
  );
