import type { SessionRef } from '../context.js';
import type { QueueJoins, Release } from '../queue/joins.js';
import type { Asked, ClaimedTask, ClaimRow, Dispatcher, Fresh } from '../queue/port.js';
import { QueueTakers, serves, type Taker } from './worker.js';

/** Tasks that one script may hand out: with 200 items of its own it stays within its bound. */
const tasksMax = 100;
/** Wants that one script may carry. */
const wantsMax = 64;

interface Row {
  readonly taker: Taker;
  readonly count: number;
  readonly generation: number;
}

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
  #joins: QueueJoins | undefined;
  #scheduled = false;
  #claiming = false;
  /** While the daemon drains nobody is asked for, and what comes back was drained. */
  draining = false;

  constructor(readHeld: ReadHeld) {
    this.#readHeld = readHeld;
  }

  /** The joins need the pool and the pool the joins: tied once, by the app. */
  bind(joins: QueueJoins): void {
    this.#joins = joins;
  }

  get takers(): number {
    let sum = 0;
    for (const takers of this.#queues.values()) sum += takers.size;
    return sum;
  }

  queueNames(): Iterable<string> {
    return this.#queues.keys();
  }

  add(taker: Taker): void {
    const takers = this.#queues.get(taker.queue) ?? new QueueTakers(taker.queue);
    this.#queues.set(taker.queue, takers);
    takers.size++;
    this.changed(taker);
  }

  remove(taker: Taker): void {
    const takers = this.#queues.get(taker.queue);
    if (!takers) return;
    // It may have been woken for a task and go before it asked: the next one is told instead.
    const wasWoken = takers.eager.has(taker);
    takers.remove(taker);
    takers.size--;
    if (takers.size === 0) this.#queues.delete(taker.queue);
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
    const tasks = this.#holders.get(session) ?? new Map();
    this.#holders.set(session, tasks);
    tasks.set(task, { fence, holder });
  }

  finished(session: string, task: string, fence: number): () => void {
    const entry = this.#forget(session, task, fence);
    if (!entry) return () => undefined;
    return () => {
      this.holds(session, task, fence, entry.holder);
      entry.holder.regain(task, fence);
    };
  }

  /** A task was taken from its holder (timeout, revoked, cancelled …). True if it counted as held here. */
  taken(session: string, task: string, fence: number): boolean {
    return this.#forget(session, task, fence) !== undefined;
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

  /** A connection has let go of the session: what its workers held counts here no longer. A newer connection's does. */
  forgetOwner(session: string, owner: object): void {
    const tasks = this.#holders.get(session);
    if (!tasks) return;
    for (const [task, { holder }] of tasks) if (holder.owner === owner) tasks.delete(task);
    if (tasks.size === 0) this.#holders.delete(session);
  }

  /** Hands tasks back that did not reach their worker; the attempt is refunded. */
  giveBack(tasks: readonly ClaimedTask[], session: SessionRef): void {
    if (tasks.length === 0 || !this.#joins) return;
    const reason = this.draining ? 'drained' : 'undelivered';
    const rest = { session: session.id, binding: session.binding, reason, afterMs: undefined, saved: '' } as const;
    const items: Release[] = tasks.map(({ task, fence }) => ({ ...rest, task, fence }));
    // Redis away: the session's end gives them back, charged; nothing better can be known.
    this.#joins.release(items).catch(() => undefined);
  }

  claimSoon(): void {
    if (this.#scheduled || this.draining) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#claim();
    });
  }

  /** Claims until nobody is eager; one script at a time, others (complete, enqueue) carry wants meanwhile. */
  async #claim(): Promise<void> {
    if (this.#claiming || !this.#joins || this.draining || !this.#hasEager()) return;
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

  ask(fresh?: ReadonlyMap<string, Fresh>): Asked {
    const rows: Row[] = [];
    if (!this.draining) {
      let left = tasksMax;
      for (const takers of this.#queues.values()) {
        const news = fresh?.get(takers.queue);
        // A claim may be on its way that finds the queue still empty: its answer is older than this news.
        if (news) takers.generation++;
        if (takers.eager.size > 0 && left > 0) left -= askEager(takers, left, rows);
        if (news && takers.idle.size > 0 && left > 0) left -= askIdle(takers, news, left, rows);
      }
    }
    return { args: wantArgs(rows), settle: (got) => this.#settle(rows, got), fail: () => this.#failed(rows) };
  }

  #settle(rows: readonly Row[], got: readonly ClaimRow[]): void {
    const given: ClaimedTask[][] = rows.map(() => []);
    const gone = new Set<number>();
    let more = false;
    for (const row of got) {
      if (row.length > 1) {
        const [want, task, fence, line] = row as [number, string, string, string];
        given[want - 1]!.push({ task, fence: Number(fence), line });
      } else if (row[0] === 0) more = true;
      else gone.add(-row[0] - 1);
    }
    rows.forEach(({ taker, count, generation }, i) => {
      taker.pending -= count;
      const tasks = given[i]!;
      const stale = this.#queues.get(taker.queue)?.generation !== generation;
      // A session that does not speak here has nothing to wait for: its keeper finds out why.
      if (gone.has(i) || (tasks.length < count && !more && !stale)) taker.dry = true;
      if (tasks.length > 0) taker.take(tasks);
      this.changed(taker);
    });
  }

  /** The reply is lost, the claim perhaps not: what the session holds is read before its workers ask again. */
  #failed(rows: readonly Row[]): void {
    for (const taker of new Set(rows.map((row) => row.taker))) void this.#reconcile(taker, rows);
  }

  async #reconcile(taker: Taker, rows: readonly Row[]): Promise<void> {
    const asked = rows.filter((row) => row.taker === taker).reduce((sum, row) => sum + row.count, 0);
    for (let attempt = 0; attempt < 60 && this.#queues.has(taker.queue); attempt++) {
      try {
        const held = await this.#readHeld(taker.session.id, taker.name, taker.queue);
        const lost = held.filter(([task]) => !this.isHeld(taker.session.id, task));
        this.giveBack(
          lost.map(([task, fence]) => ({ task, fence: Number(fence), line: '' })),
          taker.session,
        );
        break;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 250).unref());
      }
    }
    taker.pending -= asked;
    taker.dry = false;
    this.changed(taker);
  }
}

/** What a held task counts against. */
export interface TaskHolder {
  /** The connection's workers it belongs to. */
  readonly owner: object;
  /** The task is finished or taken: its credit is free. */
  let(task: string): void;
  /** It was not finished after all. */
  regain(task: string, fence: number): void;
}

function askEager(takers: QueueTakers, max: number, rows: Row[]): number {
  // In rounds: a worker of large credit must not take at once what its neighbours could do beside it.
  let asked = 0;
  const share = Math.max(1, Math.ceil(max / Math.min(takers.eager.size, wantsMax)));
  for (const taker of [...takers.eager]) {
    if (asked >= max || rows.length >= wantsMax) break;
    asked += push(takers, taker, Math.min(taker.free, share, max - asked), rows);
  }
  return asked;
}

function askIdle(takers: QueueTakers, news: Fresh, max: number, rows: Row[]): number {
  let asked = 0;
  const most = Math.min(max, news.tasks);
  const share = Math.max(1, Math.ceil(most / Math.min(takers.idle.size, wantsMax)));
  for (const taker of [...takers.idle]) {
    if (asked >= most || rows.length >= wantsMax) break;
    if (taker.kinds && ![...news.kinds].some((kind) => serves(taker, kind))) continue;
    asked += push(takers, taker, Math.min(taker.free, share, most - asked), rows);
  }
  return asked;
}

function push(takers: QueueTakers, taker: Taker, count: number, rows: Row[]): number {
  if (count <= 0) return 0;
  taker.pending += count;
  rows.push({ taker, count, generation: takers.generation });
  takers.sort(taker);
  return count;
}

function wantArgs(rows: readonly Row[]): (string | number)[] {
  const args: (string | number)[] = [rows.length];
  for (const { taker, count } of rows) {
    const { session, name, queue, kinds, leaseMs } = taker;
    args.push(session.id, session.binding, name, queue, kinds ? kinds.join('\0') : '', leaseMs ?? '', count);
  }
  return args;
}
