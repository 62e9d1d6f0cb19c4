import { z } from 'zod';
import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { lastWords } from './last-words.js';

const closeScript = lua(import.meta.url, './close.lua', ['id', 'binding', 'reason', 'why']);
const giveBackScript = lua(import.meta.url, './give-back.lua', ['most']);

/** Why a session ended: the word of its events. */
export type EndReason = 'closed' | 'revoked';

/**
 * Marks the session ended; from then on every check of it fails. Answers what it held, or undefined if it had ended, or
 * has another binding by now. `why`: what an operator said, as JSON text.
 */
export async function endSession(
  namespace: Namespace,
  session: Pick<SessionRef, 'id'> & { readonly binding?: number },
  reason: EndReason,
  why = '',
): Promise<number | undefined> {
  const [held] = await namespace.call<[number]>(closeScript, [session.id, session.binding ?? '', reason, why]);
  return held < 0 ? undefined : held;
}

export interface GiveBack {
  readonly more: boolean;
  /** Milliseconds to the next grace that runs out. */
  readonly nextMs: number | undefined;
}

/** One page of what ended sessions and broken sockets leave behind. */
export async function giveBack(namespace: Namespace): Promise<GiveBack> {
  const [more, next] = await namespace.call<[number, string]>(giveBackScript, [100]);
  return { more: more === 1, nextMs: next === '' ? undefined : Number(next) };
}

export const close = defineCommand({
  name: 'session.close',
  about: 'End the session: everything it holds goes back at once, attempts are charged.',
  allowed: 'session',
  params: z.strictObject({}),
  result: z.object({ released: z.int() }),
  fails: ['SESSION_LOST'],
  run: async (_, context) => {
    const { namespace, session, connection } = context;
    await lastWords(context);
    const released = await endSession(namespace, session, 'closed');
    if (released === undefined) throw new Refusal('SESSION_LOST');
    connection.detach();
    // The pages are the reactor's work, but who asked may see them done: at most this many, the rest follows. The session
    // has ended whatever becomes of them, so their failing is not the answer.
    const pages = Math.ceil(released / 100);
    for (let page = 0; page < pages; page++) await giveBack(namespace).catch(() => undefined);
    return { released };
  },
});
