import type { SessionRef } from '../context.js';
import { newId } from '../lib/ids.js';
import type { ClaimedTask } from '../queue/port.js';
import type { Ties } from './push-worker.js';
import type { Workers } from './sinks.js';
import type { Owner, Taker, TaskHolder } from './worker.js';
import type { WorkerPool } from './workers.js';

export type ClaimWant = Parameters<Workers['claim']>[0];
type Done = (tasks: ClaimedTask[], error: unknown) => void;

/** One queue.claim call: it takes once, and its tasks count against nobody's credit. */
export class ClaimCall implements Taker, TaskHolder {
  readonly owner: Owner;
  readonly session: SessionRef;
  /** Its own, so that what a lost answer brought is told from what the session holds by other calls. */
  readonly name = `\0${newId()}`;
  readonly queue: string;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  /** The answer is one line. */
  readonly room: number;
  readonly #pool: WorkerPool;
  readonly #ties: Ties;
  readonly #done: Done;
  readonly #count: number;
  #timer: NodeJS.Timeout | undefined;
  /** `soon`: it ends with the next answer that is not older than the news. */
  #over: 'no' | 'soon' | 'yes' = 'no';
  /** What its last script failed with. */
  #error: unknown;
  readonly credit = 0;
  pending = 0;
  dry = false;
  gone = false;

  constructor(want: ClaimWant, session: SessionRef, ties: Ties, done: Done) {
    this.owner = ties.owner;
    this.session = session;
    this.queue = want.queue;
    this.kinds = want.kinds;
    this.leaseMs = want.leaseMs;
    this.#count = want.count;
    this.room = ties.lineBytes - 1024;
    this.#ties = ties;
    this.#pool = ties.pool;
    this.#done = done;
    if (want.waitMs === 0) this.#over = 'soon';
    else this.#timer = setTimeout(() => this.end(), Math.min(want.waitMs, 2 ** 31 - 1));
  }

  /** One script at a time: two that both find something would take twice the count. */
  get free(): number {
    return this.#ties.blocked || this.pending > 0 || this.#over === 'yes' ? 0 : this.#count;
  }

  take(tasks: readonly ClaimedTask[]): void {
    if (this.#over === 'yes') {
      void this.#pool.giveBack(tasks, this);
      return;
    }
    this.#error = undefined;
    for (const { task, fence } of tasks) this.#pool.holds(this.session.id, task, fence, this);
    const last = this.dry || this.#pool.draining;
    if (tasks.length > 0 || (this.#over === 'soon' && last)) this.#finish([...tasks]);
  }

  /** The time is over. What a script on its way brings still counts, but not one whose answer is lost. */
  end(): void {
    if (this.#over === 'no' && this.pending > 0 && this.#error === undefined) this.#over = 'soon';
    else this.#finish([], this.#error);
  }

  /** The socket is gone: what still comes goes back. */
  abandon(): void {
    this.#finish([]);
  }

  /** Who does not wait hears at once that Redis is away; who waits goes on waiting. What was claimed goes back anyway. */
  failed(error: unknown): void {
    this.#error = error;
    if (this.#over === 'soon') this.#finish([], error);
  }

  /** Who waits goes on waiting, for its time or its socket's turn: asked again at once it would only ask again at once. */
  drained(): void {
    if (this.#over === 'soon' && this.pending === 0) this.#finish([]);
  }

  #finish(tasks: ClaimedTask[], error?: unknown): void {
    if (this.#over === 'yes') return;
    this.#over = 'yes';
    clearTimeout(this.#timer);
    this.#pool.remove(this);
    this.#done(tasks, error);
  }

  let(): void {}
  regain(): void {}
}
