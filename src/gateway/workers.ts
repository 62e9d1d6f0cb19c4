import { Refusal } from '../errors.js';
import type { QueueJoins } from '../queue/joins.js';
import type { Asked, ClaimedTask, ClaimRows, Dispatcher, Fresh, HeldTask } from '../queue/port.js';
import { askEager, askIdle, type Row, tasksMax, wantArgs, wantsMax } from './asking.js';
import { type Claimant, HandBack, pauseAfter, whileHeld } from './hand-back.js';
import { SecondLook, type StillHeld } from './second-look.js';
import { type Owner, QueueTakers, type Taker, type TaskHolder } from './worker.js';

/** Reads from Redis what a taker's session really holds under its name. */
export type ReadHeld = (session: string, worker: string, queue: string) => Promise<readonly [string, string][]>;

/**
 * The workers and waiting claims of one namespace on this daemon, and who of them is asked for in which script. Redis
 * decides who gets what; this only says who could take how much. Whatever is forgotten here is found again by the
 * sweep, which wakes everybody once a second.
 */
export class WorkerPool implements Dispatcher {
  readonly #queues = new Map<string, QueueTakers>();
  /** Tasks by session: whose credit they count against. */
  readonly #holders = new Map<string, Map<string, { readonly fence: number; readonly holder: TaskHolder }>>();
  readonly #readHeld: ReadHeld;
  readonly #handBack: HandBack;
  readonly #secondLook: SecondLook;
  #joins: QueueJoins | undefined;
  #scheduled = false;
  #claiming = false;
  #draining = false;

  constructor(readHeld: ReadHeld, stillHeld: StillHeld, onLostHandBack: (error: unknown) => void) {
    this.#readHeld = readHeld;
    this.#secondLook = new SecondLook(stillHeld, this);
    this.#handBack = new HandBack(onLostHandBack);
  }

  /** The joins need the pool and the pool the joins: tied once, by the app. */
  bind(joins: QueueJoins): void {
    this.#joins = joins;
  }

  /** While the daemon drains nobody is asked for, and what comes back was drained. */
  get draining(): boolean {
    return this.#draining;
  }

  drain(): void {
    this.#draining = true;
    for (const { all } of [...this.#queues.values()]) for (const taker of [...all]) taker.drained();
  }

  get takers(): number {
    let sum = 0;
    for (const takers of this.#queues.values()) sum += takers.all.size;
    return sum;
  }

  /** What the declared workers of a queue may have at once, together. */
  credit(queue: string): number {
    let sum = 0;
    for (const taker of this.#queues.get(queue)?.all ?? []) sum += taker.credit;
    return sum;
  }

  queueNames(): Iterable<string> {
    return this.#queues.keys();
  }

  add(taker: Taker): void {
    const takers = this.#queues.get(taker.queue) ?? new QueueTakers(taker.queue);
    this.#queues.set(taker.queue, takers);
    takers.all.add(taker);
    this.changed(taker);
    if (this.#draining) taker.drained();
  }

  remove(taker: Taker): void {
    const takers = this.#queues.get(taker.queue);
    if (!takers || taker.gone) return;
    // It may have been woken for a task and go before it asked: the next one is told instead.
    const wasWoken = takers.eager.has(taker);
    takers.remove(taker);
    takers.all.delete(taker);
    if (takers.all.size === 0) this.#queues.delete(taker.queue);
    else if (wasWoken && takers.wake(undefined, 1)) this.claimSoon();
  }

  /** Credit, load or dryness of a taker has changed. */
  changed(taker: Taker): void {
    const takers = this.#queues.get(taker.queue);
    if (!takers) return;
    takers.sort(taker);
    if (takers.eager.has(taker)) this.claimSoon();
  }

  /** Up to `count` tasks of `kind` (undefined: unknown) have become ready in `queue`. */
  ready(queue: string, kind: string | undefined, count: number): void {
    if (this.#queues.get(queue)?.wake(kind, count)) this.claimSoon();
  }

  /** Everybody asks again: by the clock, and when the log had a hole. */
  wakeAll(): void {
    for (const takers of this.#queues.values()) takers.wake(undefined, Number.POSITIVE_INFINITY);
    this.claimSoon();
  }

  holds(session: string, task: string, fence: number, holder: TaskHolder): void {
    if (holder.owner.gone) return;
    const tasks = this.#holders.get(session) ?? new Map();
    this.#holders.set(session, tasks);
    tasks.set(task, { fence, holder });
  }

  finished(session: string, task: string, fence: number): (is: 'held' | 'unknown') => void {
    const entry = this.#forget(session, task, fence);
    if (!entry) return () => undefined;
    return (is) => {
      // It may have come back to the session under a newer fence.
      if (this.isHeld(session, task)) return;
      this.holds(session, task, fence, entry.holder);
      entry.holder.regain(task, fence);
      if (is === 'unknown') this.lookAgain(session, [{ task, fence }]);
    };
  }

  /** A task was taken from its holder (timeout, revoked, cancelled …). True if it counted as held here. */
  taken(session: string, task: string, fence: number): boolean {
    return this.#forget(session, task, fence) !== undefined;
  }

  /** Whether these are held is not known for sure: found out soon. */
  lookAgain(session: string, tasks: readonly HeldTask[]): void {
    this.#secondLook.at(session, tasks);
  }

  #forget(session: string, task: string, fence: number) {
    const tasks = this.#holders.get(session);
    const entry = tasks?.get(task);
    if (!tasks || !entry || entry.fence !== fence) return undefined;
    tasks.delete(task);
    if (tasks.size === 0) this.#holders.delete(session);
    entry.holder.let(task);
    return entry;
  }

  isHeld(session: string, task: string): boolean {
    return this.#holders.get(session)?.has(task) ?? false;
  }

  counts(session: string, { task, fence }: HeldTask): boolean {
    return this.#holders.get(session)?.get(task)?.fence === fence;
  }

  /** A connection has let go of the session: what its workers held counts here no longer. A newer connection's does. */
  forgetOwner(session: string, owner: Owner): void {
    const tasks = this.#holders.get(session);
    if (!tasks) return;
    for (const [task, { holder }] of tasks) if (holder.owner === owner) tasks.delete(task);
    if (tasks.size === 0) this.#holders.delete(session);
  }

  /** Hands tasks back that did not reach their worker; the attempt is refunded. Answers those that went back. */
  async giveBack(tasks: readonly HeldTask[], claimant: Claimant): Promise<HeldTask[]> {
    if (!this.#joins) return [];
    const reason = (): 'drained' | 'undelivered' => (this.#draining ? 'drained' : 'undelivered');
    return await this.#handBack.giveBack(tasks, claimant, reason, this.#joins);
  }

  claimSoon(): void {
    if (this.#scheduled || this.#draining) return;
    this.#scheduled = true;
    setImmediate(this.#claimAlone);
  }

  /** Unless a script is about to go that asks too: one more would part what that one frees from what it asks for. */
  readonly #claimAlone = (): void => {
    if (this.#joins?.asksSoon) {
      setTimeout(this.#claimAlone, 1).unref();
      return;
    }
    this.#scheduled = false;
    void this.#claim();
  };

  /** Claims until nobody is eager; one script at a time, others (complete, enqueue) carry wants meanwhile. */
  async #claim(): Promise<void> {
    if (this.#claiming || !this.#joins || this.#draining || !this.#hasEager()) return;
    this.#claiming = true;
    try {
      await this.#joins.claim();
    } catch {
      return; // Redis is away; the sweep wakes everybody again.
    } finally {
      this.#claiming = false;
    }
    if (this.#hasEager()) this.claimSoon();
  }

  #hasEager(): boolean {
    for (const takers of this.#queues.values()) if (takers.eager.size > 0) return true;
    return false;
  }

  ask(most = tasksMax, fresh?: ReadonlyMap<string, Fresh>): Asked {
    const rows: Row[] = [];
    if (!this.#draining) {
      let left = Math.min(most, tasksMax);
      for (const takers of this.#queues.values()) {
        const news = fresh?.get(takers.queue);
        // A claim may be on its way that finds the queue still empty: its answer is older than this news.
        if (news) takers.generation++;
        if (takers.eager.size > 0 && left > 0) left -= askEager(takers, left, rows);
        if (news && takers.idle.size > 0 && left > 0) left -= askIdle(takers, news, left, rows);
      }
      if (rows.length > 0 && (left <= 0 || rows.length >= wantsMax)) this.#rotate(rows[0]!.taker.queue);
    }
    return {
      args: wantArgs(rows),
      settle: (got) => this.#settle(rows, got),
      fail: (error) => this.#failed(rows, error),
    };
  }

  /** A queue that was asked for first in a full script is asked for last in the next: none can starve another. */
  #rotate(queue: string): void {
    const takers = this.#queues.get(queue);
    if (!takers || this.#queues.size === 1) return;
    this.#queues.delete(queue);
    this.#queues.set(queue, takers);
  }

  #settle(rows: readonly Row[], got: ClaimRows): void {
    const given: ClaimedTask[][] = rows.map(() => []);
    const gone = new Set<number>();
    let more = false;
    for (let at = 0; at < got.length; at += 4) {
      const want = got[at] as number;
      if (want > 0) {
        given[want - 1]!.push({ task: got[at + 1] as string, fence: Number(got[at + 2]), line: got[at + 3] as string });
      } else if (want === 0) more = true;
      else gone.add(-want - 1);
    }
    rows.forEach(({ taker, count, generation }, i) => {
      taker.pending -= count;
      const tasks = given[i]!;
      const stale = this.#queues.get(taker.queue)?.generation !== generation;
      // A session that does not speak here has nothing to wait for: its keeper finds out why.
      if (gone.has(i) || (tasks.length < count && !more && !stale)) taker.dry = true;
      taker.take(tasks);
      this.changed(taker);
    });
  }

  /** The reply is lost, the claim perhaps not: what the session holds is read before its workers ask again. */
  #failed(rows: readonly Row[], error: unknown): void {
    for (const taker of new Set(rows.map((row) => row.taker))) {
      taker.failed(error);
      // It was never sent: nothing can have been claimed, and a call that is over has nothing else to wait for.
      if (taker.gone && error instanceof Refusal && error.code === 'UNAVAILABLE') continue;
      void this.#reconcile(taker, rows);
    }
  }

  async #reconcile(taker: Taker, rows: readonly Row[]): Promise<void> {
    const asked = rows.filter((row) => row.taker === taker).reduce((sum, row) => sum + row.count, 0);
    const held = whileHeld(taker);
    // The end of a connection decides about what its workers held; a queue.claim call's name is only its own.
    const ended = (): boolean => (taker.name.startsWith('\0') ? !held() : taker.owner.gone);
    for (let failures = 0; !ended(); failures++) {
      try {
        const holds = await this.#readHeld(taker.session.id, taker.name, taker.queue);
        const lost = holds.filter(([task]) => !this.isHeld(taker.session.id, task));
        await this.giveBack(
          lost.map(([task, fence]) => ({ task, fence: Number(fence) })),
          taker,
        );
        break;
      } catch {
        await pauseAfter(failures);
      }
    }
    taker.pending -= asked;
    taker.dry = false;
    this.changed(taker);
  }
}
