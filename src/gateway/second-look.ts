import type { HeldTask } from '../queue/port.js';

/** Longer than any request waits in a healthy daemon, and short enough that nobody misses the credit. */
const lookAgainMs = 500;

/** Asks Redis which of these attempts are still the session's. */
export type StillHeld = (session: string, tasks: readonly HeldTask[]) => Promise<readonly boolean[]>;

/** Who counts what is held. */
interface Book {
  counts(session: string, task: HeldTask): boolean;
  taken(session: string, task: string, fence: number): boolean;
}

/**
 * Tasks that count as held here although they may have ended: what a returning worker holds was read while the ends of it
 * may have been on their way, and an end whose answer was lost may have happened. Nobody tells a holder of what it has
 * ended itself, so Redis is asked, until it answers; else their credit would be lost for good.
 */
export class SecondLook {
  readonly #stillHeld: StillHeld;
  readonly #book: Book;
  /** By session, and in it by fence; no more than its workers hold. */
  readonly #unsure = new Map<string, Map<number, HeldTask>>();

  constructor(stillHeld: StillHeld, book: Book) {
    this.#stillHeld = stillHeld;
    this.#book = book;
  }

  at(session: string, tasks: readonly HeldTask[]): void {
    if (tasks.length === 0) return;
    const known = this.#unsure.get(session);
    const unsure = known ?? new Map<number, HeldTask>();
    for (const task of tasks) unsure.set(task.fence, task);
    if (known) return;
    this.#unsure.set(session, unsure);
    setTimeout(() => void this.#look(session, unsure), lookAgainMs).unref();
  }

  async #look(session: string, unsure: ReadonlyMap<number, HeldTask>): Promise<void> {
    this.#unsure.delete(session);
    const tasks = [...unsure.values()].filter((task) => this.#book.counts(session, task));
    if (tasks.length === 0) return;
    try {
      const held = await this.#stillHeld(session, tasks);
      tasks.forEach(({ task, fence }, i) => {
        if (!held[i]) this.#book.taken(session, task, fence);
      });
    } catch {
      this.at(session, tasks); // Redis is away: the next look will tell.
    }
  }
}
