import { Refusal } from '../../errors.js';
import { NamespaceName } from '../../protocol/primitives.js';
import type { Entry } from './schema.js';

/** What the gate needs to know of a connection. */
export interface Caller {
  readonly authenticated: boolean;
  readonly state: 'none' | 'live' | 'lost';
  /** The namespace that holds for the connection, once one was named or used. */
  readonly heldNamespace: string | undefined;
}

/** Who may call what: the table of `allowed`, connection state and credentials. Throws if not. */
export function checkAllowed(entry: Entry, caller: Caller): void {
  const { name } = entry;
  const { allowed } = entry.command;
  if (!caller.authenticated && allowed !== 'anyone') throw new Refusal('UNAUTHENTICATED');
  if (name === 'session.open') return;
  // A ping too: its answer would prove to the holder of a lost session that it was heard.
  if (caller.state === 'lost' && !entry.answersLost) throw new Refusal('SESSION_LOST');
  if (caller.state === 'none' && allowed === 'session') throw new Refusal('NO_SESSION');
}

/**
 * The namespace a call is about; takes `namespace` out of the params of watcher commands that do not declare it. The
 * first one used holds for the connection: its tail, and the session it may open later, are in one log.
 */
export function namespaceFor(entry: Entry, params: Record<string, unknown>, caller: Caller): string {
  const held = caller.heldNamespace;
  const { allowed } = entry.command;
  if (allowed === 'session' || !(entry.ownNamespace || allowed === 'watcher')) return held ?? 'default';
  if (!Object.hasOwn(params, 'namespace')) {
    if (entry.ownNamespace && held !== undefined) params.namespace = held;
    return held ?? 'default';
  }
  const named = NamespaceName.safeParse(params.namespace);
  if (!named.success)
    throw new Refusal('BAD_REQUEST', named.error.issues[0]?.message ?? 'expected a name', { path: 'namespace' });
  if (!entry.ownNamespace) delete params.namespace;
  if (held === undefined || named.data === held) return named.data;
  if (caller.state === 'live') throw new Refusal('FORBIDDEN', `this session is in namespace ${held}`);
  throw new Refusal('CONFLICT', `this connection is in namespace ${held}`);
}
