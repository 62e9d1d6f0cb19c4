import type { SessionRef } from '../context.js';
import { pushLine } from '../protocol/frame.js';
import type { ClaimedTask, WorkerSpec } from '../queue/port.js';
import type { WorkersSink } from './sinks.js';
import type { Owner, Taker, TaskHolder } from './worker.js';
import type { WorkerPool } from './workers.js';

/** What a connection's takers share. */
export interface Ties {
  readonly owner: Owner;
  readonly pool: WorkerPool;
  readonly sink: WorkersSink;
  readonly lineBytes: number;
  /** Workers whose last push was not received: nothing is pushed to them before the next pong of their socket. */
  readonly silent: Set<PushWorker>;
  /** The socket takes nothing for now: what is claimed for its workers would wait here while others are idle. */
  blocked: boolean;
}

/** A declared worker: its tasks are pushed, and count against its credit until they are finished. */
export class PushWorker implements Taker, TaskHolder {
  readonly owner: Owner;
  readonly session: SessionRef;
  readonly name: string;
  readonly queue: string;
  readonly room = undefined;
  readonly #ties: Ties;
  readonly #unfinished = new Map<string, number>();
  kinds: readonly string[] | undefined;
  leaseMs: number | undefined;
  credit: number;
  pending = 0;
  dry = false;
  gone = false;

  constructor(spec: WorkerSpec, session: SessionRef, ties: Ties) {
    this.owner = ties.owner;
    this.session = session;
    this.name = spec.worker;
    this.queue = spec.queue;
    this.kinds = spec.kinds;
    this.leaseMs = spec.leaseMs;
    this.credit = spec.credit;
    this.#ties = ties;
    for (const { task, fence } of spec.holds) this.#keep(task, fence);
    ties.pool.lookAgain(session.id, spec.holds);
  }

  /** Declared again under its name: it goes on with what it holds and has asked for. */
  change({ credit, kinds, leaseMs }: Pick<WorkerSpec, 'credit' | 'kinds' | 'leaseMs'>): void {
    this.credit = credit;
    this.kinds = kinds;
    this.leaseMs = leaseMs;
    this.rouse();
  }

  /** It may be able to do what it could not do before. */
  rouse(): void {
    this.dry = false;
    this.#ties.pool.changed(this);
  }

  get free(): number {
    const { blocked, silent } = this.#ties;
    return blocked || silent.has(this) ? 0 : this.credit - this.#unfinished.size - this.pending;
  }

  #keep(task: string, fence: number): void {
    this.#unfinished.set(task, fence);
    this.#ties.pool.holds(this.session.id, task, fence, this);
  }

  let(task: string): void {
    this.#unfinished.delete(task);
    this.rouse();
  }

  regain(task: string, fence: number): void {
    this.#unfinished.set(task, fence);
    this.#ties.pool.changed(this);
  }

  take(tasks: readonly ClaimedTask[]): void {
    if (tasks.length === 0) return;
    if (this.gone) {
      void this.#ties.pool.giveBack(tasks, this);
      return;
    }
    // The ceiling may have been lowered while the claim was on its way: after that answer no push goes beyond it.
    const room = Math.max(0, this.credit - this.#unfinished.size);
    const mine = tasks.slice(0, room);
    for (const { task, fence } of mine) this.#keep(task, fence);
    if (mine.length > 0) for (const part of byLine(mine, this.#ties.lineBytes)) this.#push(part);
    void this.#ties.pool.giveBack(tasks.slice(room), this);
  }

  failed(): void {}
  drained(): void {}

  #push(tasks: readonly ClaimedTask[]): void {
    const line = `{"op":"tasks","worker":${JSON.stringify(this.name)},"tasks":[${tasks.map((task) => task.line).join(',')}]}`;
    this.#ties.sink.deliver(line, (fate) => {
      if (fate === 'received' || fate === 'closed') return;
      const { pool, sink } = this.#ties;
      if (fate === 'silent') this.#suspend();
      const still = tasks.filter(({ task, fence }) => this.#unfinished.get(task) === fence);
      // A frozen worker finds the line when it thaws: right behind it, that the tasks are no longer its own.
      const tell = fate === 'silent';
      pool.giveBack(still, this).then((given) => {
        const rows = given.map(({ task, fence }) => ({ task, fence, reason: 'undelivered' }));
        if (tell && rows.length > 0) sink.push(pushLine('revoked', { tasks: rows }));
      });
    });
  }

  #suspend(): void {
    const { silent, sink } = this.#ties;
    if (silent.size === 0) {
      sink.onPong(() => {
        const heard = [...silent];
        silent.clear();
        for (const worker of heard) worker.rouse();
      });
    }
    silent.add(this);
    this.#ties.pool.changed(this);
  }
}

/** Splits tasks so that each line, with its frame, stays within the line's bound. */
function byLine(tasks: readonly ClaimedTask[], lineBytes: number): ClaimedTask[][] {
  const parts: ClaimedTask[][] = [[]];
  let bytes = 0;
  for (const task of tasks) {
    const size = Buffer.byteLength(task.line) + 1;
    if (bytes + size > lineBytes - 512 && parts.at(-1)!.length > 0) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)!.push(task);
    bytes += size;
  }
  return parts;
}
