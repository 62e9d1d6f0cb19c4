import { setTimeout as wait } from 'node:timers/promises';
import type { SessionRef } from '../context.js';
import type { QueueJoins, Release } from '../queue/joins.js';
import type { HeldTask } from '../queue/port.js';
import type { Owner } from './worker.js';

/** For whom something was claimed: a taker, or what is left of one. */
export interface Claimant {
  readonly session: SessionRef;
  readonly owner: Owner;
}

/** Tasks that may wait for Redis here; what is beyond stays with its session. */
const waitingMax = 50_000;

/** Rises from a tenth of a second to one, with a pause after each failure. */
export async function pauseAfter(failures: number): Promise<void> {
  await wait(Math.min(100 * 2 ** failures, 1000), undefined, { ref: false });
}

/** True while what a session holds may be held by nobody else: it speaks here, or has not been silent for its ttl. */
export function whileHeld({ session, owner }: Claimant): () => boolean {
  let until = Number.POSITIVE_INFINITY;
  return () => {
    if (owner.gone) until = Math.min(until, performance.now() + session.ttlMs);
    return performance.now() < until;
  };
}

/**
 * Hands back tasks that did not reach who they were claimed for; the attempt is refunded. Nobody else can know that they
 * are free: while their session lives they would stay active for a worker that never saw them. So it is tried until
 * Redis answers. Twice is harmless: the fence and the binding say whose they were.
 */
export class HandBack {
  readonly #onError: (error: unknown) => void;
  #waiting = 0;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Answers those that went back. Never rejects. */
  async giveBack(
    tasks: readonly HeldTask[],
    claimant: Claimant,
    reason: () => Release['reason'],
    joins: QueueJoins,
  ): Promise<HeldTask[]> {
    if (tasks.length === 0) return [];
    const { id, binding } = claimant.session;
    const held = whileHeld(claimant);
    for (let failures = 0; ; failures++) {
      const rest = { session: id, binding, reason: reason(), afterMs: undefined, saved: '' };
      try {
        const texts = await joins.release(tasks.map(({ task, fence }) => ({ ...rest, task, fence })));
        return tasks.filter((_, i) => !texts[i]!.startsWith('!'));
      } catch (error) {
        this.#onError(error);
      }
      // The end of the session gives them back then, charged.
      if (!held() || this.#waiting + tasks.length > waitingMax) return [];
      this.#waiting += tasks.length;
      await pauseAfter(failures);
      this.#waiting -= tasks.length;
    }
  }
}
