import { filter, map, type Observable } from 'rxjs';
import type { LogBatch, LogEvent } from '../../src/redis/log-entry.js';

/**
 * The events of `types` that a script of ours wrote about its own change, batch by batch. An entry that has none of them
 * is not even cut into lines; what services published is never believed, whatever it calls itself.
 */
export const ownEvents =
  (types: ReadonlySet<string>) =>
  (batch$: Observable<LogBatch>): Observable<readonly LogEvent[]> =>
    batch$.pipe(
      map((batch) =>
        batch.flatMap((item) =>
          item.kind === 'entry' && item.types.some((type) => types.has(type))
            ? item.events.filter((event) => event.own && types.has(event.type))
            : [],
        ),
      ),
      filter((events) => events.length > 0),
    );
