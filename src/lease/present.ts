import { setTimeout as wait } from 'node:timers/promises';
import type { ConnectionPort, SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './present.lua', ['id', 'binding', 'cursor']);

/**
 * A session was resumed and is bound to its socket: what it holds stays, and its waits stand in their queues again. Not
 * part of the resume: that one's reply may never arrive, and then nobody holds the session. Whatever is granted by this
 * is pushed, behind the reply that showed it waiting. Goes on until it is done or the socket is gone; until then the
 * session is passed over, and its work goes back when the grace is over.
 */
export function present(namespace: Namespace, session: SessionRef, connection: ConnectionPort): void {
  void bringBack(namespace, session, connection);
}

async function bringBack(namespace: Namespace, { id, binding }: SessionRef, connection: ConnectionPort): Promise<void> {
  let cursor = '';
  for (let pauseMs = 50; connection.session?.binding === binding; ) {
    try {
      [cursor] = await namespace.call<[string, number]>(script, [id, binding, cursor]);
      if (cursor === '') return;
    } catch (error) {
      if (!(error instanceof Refusal && error.retry)) return;
      await wait(pauseMs, undefined, { ref: false });
      pauseMs = Math.min(pauseMs * 2, 1000);
    }
  }
}
