import type { SubscribeOptions } from './feed.js';
import type { Lock, LockCall, LockOptions } from './lock-options.js';
import type { Gap, Listener, Subscription } from './subscription.js';

/** A term of leadership. Its number is the fence of the lock: it only rises. */
export interface Term {
  readonly term: number;
  /** Aborts when somebody else may lead. */
  readonly signal: AbortSignal;
}

export interface ElectOptions extends Pick<LockOptions, 'leaseMs' | 'maxHoldMs' | 'reason' | 'onDisconnect'> {
  /** Ends the candidacy, and the term that runs. */
  signal?: AbortSignal;
  /** What a term threw. By default it ends the candidacy. */
  onError?: (error: unknown) => void;
}

/** What the leader does for the length of its term. */
export type Lead = (term: Term) => unknown;

/** What observers see of an election, in order: every term, how it ended, and where something was missed. */
export type TermNews =
  | {
      readonly kind: 'began';
      readonly term: number;
      readonly leader: { readonly session: string; readonly agent: string };
    }
  | { readonly kind: 'ended'; readonly term: number; readonly reason: string }
  | { readonly kind: 'gap'; readonly gap: Gap };

/** What the recipe needs of a client. */
export interface Elector {
  readonly lock: LockCall;
  subscribe(options: SubscribeOptions, listener?: Listener): Promise<Subscription>;
}

/** A candidate waits this long at a time; it then stands again, at the end. */
const standMs = 86_400_000;

/**
 * Stands for leader under `name` again and again until the signal aborts or the client is closed: whoever holds the lock leads, and `lead` runs
 * for as long as it does. A term ends when `lead` returns, too.
 */
export async function elect({ lock }: Elector, name: string, options: ElectOptions, lead: Lead): Promise<void> {
  const { signal, onError, ...rest } = options;
  const stand: LockOptions = { ...rest, waitMs: standMs, ...(signal ? { signal } : {}) };
  while (!signal?.aborted) {
    try {
      await lock(name, stand, ({ fence, signal: lost }: Lock) => lead({ term: fence, signal: lost }));
    } catch (error) {
      if (signal?.aborted) return;
      const { name: kind, code, reason } = error as { name?: string; code?: unknown; reason?: string };
      // The client was closed by its owner: that ends the standing like its signal does.
      if ((kind === 'Ended' && reason === 'closed') || (kind === 'Closed' && code === 1000)) return;
      // A term that was lost, or a day of waiting, is no reason to give up.
      if (kind === 'Ended') continue;
      if (code === 'HELD') continue;
      if (!onError || kind === 'Closed') throw error;
      onError(error);
    }
  }
}

/** Tells `listener` every term of the election, from now on. */
export function terms(
  { subscribe }: Elector,
  name: string,
  listener: (news: TermNews) => unknown,
): Promise<Subscription> {
  const types = ['lock.granted', 'lock.released', 'lock.lost'];
  return subscribe({ types, where: { lock: name } }, ({ event, gap }) => {
    if (gap) return listener({ kind: 'gap', gap });
    const { fence, session, agent, reason } = event.data as {
      fence: number;
      session: string;
      agent: string;
      reason: string;
    };
    if (event.type === 'lock.granted') return listener({ kind: 'began', term: fence, leader: { session, agent } });
    return listener({ kind: 'ended', term: fence, reason });
  });
}
