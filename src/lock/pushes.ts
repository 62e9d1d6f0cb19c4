import type { LockDue, LockPush } from '../../streams/lock.js';
import { pushLine } from '../protocol/frame.js';
import type { LockJoins } from './joins.js';

/** Where a line for a session goes, if it has a socket here. */
interface Sessions {
  bySession(session: string): unknown;
  push(session: string, line: string): boolean;
}

type Handler<Kind> = (push: Extract<LockPush | LockDue, { kind: Kind }>) => void;

/** How what the log says of locks reaches the sockets it is meant for, and the clock. */
export function lockHandlers(
  locks: LockJoins,
  sessions: Sessions,
  due: (at: number) => void,
): { readonly [Kind in (LockPush | LockDue)['kind']]: Handler<Kind> } {
  return {
    lockDue: ({ at }) => due(at),
    lockGranted: ({ session, kind: _, ...granted }) => {
      if (sessions.bySession(session) === undefined) return;
      // Known already but for the first moments of a daemon: it does not keep the line waiting.
      void locks.durability().then((durability) => {
        sessions.push(session, pushLine('granted', { ...granted, state: 'held', durability }));
      });
    },
    lockWaitEnded: ({ session, kind: _, ...ended }) => void sessions.push(session, pushLine('waitEnded', ended)),
    lockLost: ({ session, kind: _, ...lost }) =>
      void sessions.push(session, pushLine('lost', { kind: 'lock', ...lost })),
  };
}
