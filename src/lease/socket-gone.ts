import { setTimeout as wait } from 'node:timers/promises';
import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { endSession } from './session-close.js';

const script = lua(import.meta.url, './broken.lua', ['id', 'binding', 'code', 'reason', 'returns', 'agoMs']);

/** How a socket ended, as the gateway saw it. */
export type SocketEnding = 'clean' | 'broken' | 'drained' | 'replaced' | 'stalled';

interface Closing {
  readonly code: number;
  readonly reason: string;
}

/**
 * What the end of a socket means for its session (the ownership table in ARCHITECTURE.md): the client's own close ends
 * it; a broken one starts the grace after which its work goes back; one that we drained waits for its ttl; a replaced
 * one is no longer its own.
 *
 * Redis may be away just then, often for the very reason that broke the socket. It is told as soon as it is back; what
 * it is told counts from now, and does nothing if the session was resumed or has ended meanwhile.
 */
export async function socketGone(
  namespace: Namespace,
  session: SessionRef,
  how: SocketEnding,
  { code, reason }: Closing = { code: 1006, reason: '' },
): Promise<void> {
  if (how === 'replaced') return;
  const noticedAt = performance.now();
  const agoMs = (): number => Math.round(performance.now() - noticedAt);
  const tell = async (): Promise<void> => {
    if (how === 'clean') await endSession(namespace, session, 'closed');
    else await namespace.call(script, [session.id, session.binding, code, reason, how === 'drained' ? 0 : 1, agoMs()]);
  };
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 1000)) {
    try {
      await tell();
      return;
    } catch (error) {
      const away = error instanceof Refusal && error.retry;
      // Beyond its ttl the sweeps have ended it, or a standing lease clock will.
      if (!away || agoMs() > session.ttlMs) throw error;
      await wait(pauseMs, undefined, { ref: false });
    }
  }
}
