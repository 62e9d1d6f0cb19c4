import type { SessionRef } from '../context.js';
import type { ClaimedTask } from '../queue/port.js';

/** What takes claimed tasks: a declared worker whose tasks are pushed, or one waiting `queue.claim` call. */
export interface Taker {
  readonly session: SessionRef;
  readonly queue: string;
  /** As the claim is recorded under; empty for a queue.claim call. */
  readonly name: string;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  /** Tasks it may take now beyond those it has and has asked for. */
  readonly free: number;
  /** Asked for in scripts that are on their way. */
  pending: number;
  /** It asked and there was nothing: it asks again only when something has become ready. */
  dry: boolean;
  take(tasks: readonly ClaimedTask[]): void;
}

/** The takers of one queue, by what they would do with a task now. Sets keep order: who waited longest is asked first. */
export class QueueTakers {
  readonly queue: string;
  /** Free and not dry: they take part in every script. */
  readonly eager = new Set<Taker>();
  /** Free and dry: they take part when something becomes ready. */
  readonly idle = new Set<Taker>();
  /** Rises with everything that becomes ready, so that an answer that is older than the news does not hide it. */
  generation = 0;
  size = 0;

  constructor(queue: string) {
    this.queue = queue;
  }

  /** Puts the taker where it belongs after its state has changed. */
  sort(taker: Taker): void {
    this.eager.delete(taker);
    this.idle.delete(taker);
    if (taker.free > 0) (taker.dry ? this.idle : this.eager).add(taker);
  }

  remove(taker: Taker): void {
    this.eager.delete(taker);
    this.idle.delete(taker);
  }

  /** Wakes up to `count` idle takers that serve `kind` (any kind: undefined). True if one was woken. */
  wake(kind: string | undefined, count: number): boolean {
    this.generation++;
    let woken = 0;
    for (const taker of this.idle) {
      if (woken >= count) break;
      if (kind !== undefined && !serves(taker, kind)) continue;
      taker.dry = false;
      this.sort(taker);
      woken++;
    }
    return woken > 0;
  }
}

export const serves = (taker: Taker, kind: string): boolean => taker.kinds === undefined || taker.kinds.includes(kind);
