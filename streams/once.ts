import { filter, map, type Observable } from 'rxjs';
import type { LogBatch } from '../src/redis/log-entry.js';
import { ownEvents } from './operators/own-events.js';

/** A key was taken from a holder whose session lives on: it is told that it holds it no longer. */
export interface OncePush {
  readonly kind: 'lostOnce';
  readonly session: string;
  readonly key: string;
  readonly fence: number;
  readonly reason: string;
}

const types = new Set(['once.unknown']);
/** The other ends are the holder's own word, or the end of its session, which it hears of by itself. */
const takenBy = new Set(['leaseLapsed', 'revoked']);

/**
 *     batch$     --[unknown k, leaseLapsed]--[unknown k, sessionLost]--
 *     oncePush$  --[lost k]--------------------------------------------
 */
export const oncePush$ = (batch$: Observable<LogBatch>): Observable<readonly OncePush[]> =>
  batch$.pipe(
    ownEvents(types),
    map((events) =>
      events.flatMap(({ data }): OncePush[] => {
        const { session, key, fence, reason } = data as unknown as Omit<OncePush, 'kind'>;
        return takenBy.has(reason) ? [{ kind: 'lostOnce', session, key, fence, reason }] : [];
      }),
    ),
    filter((pushes) => pushes.length > 0),
  );
