import type { LockDue, LockPush } from '../../streams/lock.js';
import { pushLine } from '../protocol/frame.js';
import type { Grants, Sessions } from './grants.js';

type Handler<Kind> = (push: Extract<LockPush | LockDue, { kind: Kind }>) => void;

/** How what the log says of locks reaches the sockets it is meant for, and the clock. */
export function lockHandlers(
  grants: Grants,
  sessions: Sessions,
  due: (at: number) => void,
): { readonly [Kind in (LockPush | LockDue)['kind']]: Handler<Kind> } {
  return {
    lockDue: ({ at }) => due(at),
    lockGranted: ({ kind: _, ...granted }) => grants.fromLog(granted),
    lockWaitEnded: ({ session, kind: _, ...ended }) => void sessions.push(session, pushLine('waitEnded', ended)),
    lockLost: ({ session, kind: _, ...lost }) =>
      void sessions.push(session, pushLine('lost', { kind: 'lock', ...lost })),
  };
}
