import type { SessionRef } from '../context.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { endSession } from './session-close.js';

const script = lua(import.meta.url, './broken.lua', ['id', 'binding', 'code', 'reason', 'returns']);

/** How a socket ended, as the gateway saw it. */
export type SocketEnding = 'clean' | 'broken' | 'drained' | 'replaced' | 'stalled';

/**
 * What the end of a socket means for its session (the ownership table in ARCHITECTURE.md): the client's own close ends
 * it; a broken one starts the grace after which its work goes back; one that we drained waits for its ttl; a replaced
 * one is no longer its own.
 */
export async function socketGone(
  namespace: Namespace,
  session: SessionRef,
  how: SocketEnding,
  closing: { readonly code: number; readonly reason: string } | undefined,
): Promise<void> {
  if (how === 'replaced') return;
  if (how === 'clean') {
    await endSession(namespace, session, 'closed');
    return;
  }
  const { code, reason } = closing ?? { code: 1006, reason: 'broken' };
  await namespace.call(script, [session.id, session.binding, code, reason, how === 'drained' ? 0 : 1]);
}
