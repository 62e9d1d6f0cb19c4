import type { SessionRef } from '../context.js';
import type { ClaimedTask } from '../queue/port.js';

/** What takes claimed tasks: a declared worker whose tasks are pushed, or one waiting `queue.claim` call. */
export interface Taker {
  readonly owner: Owner;
  readonly session: SessionRef;
  readonly queue: string;
  /** As the claim is recorded under. A queue.claim call has one of its own that begins with \0 and is shown to nobody. */
  readonly name: string;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  /** Bytes that the tasks of one answer may take together; undefined: they are split over lines. */
  readonly room: number | undefined;
  /** Tasks it may have at once; 0 for a queue.claim call, which takes once. */
  readonly credit: number;
  /** Tasks it may take now beyond those it has and has asked for. */
  readonly free: number;
  /** Asked for in scripts that are on their way. */
  pending: number;
  /** It asked and there was nothing: it asks again only when something has become ready. */
  dry: boolean;
  /** Set by the pool: it takes nothing more. What a script on its way still brings it, it hands back. */
  gone: boolean;
  take(tasks: readonly ClaimedTask[]): void;
  /** The script that asked for it failed; whether it claimed something is being found out. */
  failed(error: unknown): void;
  /** The daemon drains: nobody is asked for any more. */
  drained(): void;
}

/** The workers of one connection. */
export interface Owner {
  /** They were let go: nothing counts against them any more. */
  readonly gone: boolean;
}

/** What a held task counts against. */
export interface TaskHolder {
  /** The connection's workers it belongs to. */
  readonly owner: Owner;
  /** The task is finished or taken: its credit is free. */
  let(task: string): void;
  /** It was not finished after all. */
  regain(task: string, fence: number): void;
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
  readonly all = new Set<Taker>();

  constructor(queue: string) {
    this.queue = queue;
  }

  /** Puts the taker where it belongs after its state has changed. */
  sort(taker: Taker): void {
    this.eager.delete(taker);
    this.idle.delete(taker);
    if (!taker.gone && taker.free > 0) (taker.dry ? this.idle : this.eager).add(taker);
  }

  remove(taker: Taker): void {
    taker.gone = true;
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
      // One whose socket is blocked asks when it is not; this news is for somebody else.
      if (this.eager.has(taker)) woken++;
    }
    return woken > 0;
  }
}

export const serves = (taker: Taker, kind: string): boolean => taker.kinds === undefined || taker.kinds.includes(kind);
