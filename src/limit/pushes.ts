import type { LimitDefined, LimitDue, LimitPush } from '../../streams/limit.js';
import { pushLine } from '../protocol/frame.js';
import type { LimitJoins } from './joins.js';
import type { Definition } from './model.js';

/** Where a line for a session goes, if it has a socket here. */
interface Sessions {
  push(session: string, line: string): boolean;
}

type News = LimitPush | LimitDue | LimitDefined;
type Handler<Kind> = (push: Extract<News, { kind: Kind }>) => void;

/** How what the log says of limits reaches the sockets it is meant for, and the clock. */
export function limitHandlers(
  limits: LimitJoins,
  sessions: Sessions,
  due: (at: number) => void,
): { readonly [Kind in News['kind']]: Handler<Kind> } {
  return {
    limitDue: ({ at }) => due(at),
    limitDefined: ({ name, definition }) => limits.defined({ name, ...definition } as Definition),
    limitGranted: ({ session, kind: _, ...granted }) => void sessions.push(session, pushLine('granted', granted)),
    limitWaitEnded: ({ session, kind: _, ...ended }) => void sessions.push(session, pushLine('waitEnded', ended)),
    limitLost: ({ session, kind: _, ...lost }) =>
      void sessions.push(session, pushLine('lost', { kind: 'reservation', ...lost })),
  };
}
