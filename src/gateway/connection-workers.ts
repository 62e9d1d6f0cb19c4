import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import type { ClaimedTask, WorkerSpec } from '../queue/port.js';
import type { Workers, WorkersSink } from './sinks.js';
import type { Taker } from './worker.js';
import type { TaskHolder, WorkerPool } from './workers.js';

/** Workers and waiting claims a connection may have. */
const workersMax = 64;
const claimsMax = 1000;

/** What a connection's takers share. */
interface Ties {
  readonly owner: object;
  readonly pool: WorkerPool;
  readonly sink: WorkersSink;
  readonly lineBytes: number;
}

/** A declared worker: its tasks are pushed, and count against its credit until they are finished. */
class PushWorker implements Taker, TaskHolder {
  readonly owner: object;
  readonly session: SessionRef;
  readonly name: string;
  readonly queue: string;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  readonly #pool: WorkerPool;
  readonly #sink: WorkersSink;
  readonly #lineBytes: number;
  readonly #unfinished = new Map<string, number>();
  credit: number;
  pending = 0;
  dry = false;
  /** Nothing is pushed to a worker whose last push was not received, before its pong. */
  #suspended = false;

  constructor(spec: WorkerSpec, session: SessionRef, { owner, pool, sink, lineBytes }: Ties) {
    this.owner = owner;
    this.session = session;
    this.name = spec.worker;
    this.queue = spec.queue;
    this.kinds = spec.kinds;
    this.leaseMs = spec.leaseMs;
    this.credit = spec.credit;
    this.#pool = pool;
    this.#sink = sink;
    this.#lineBytes = lineBytes;
    for (const { task, fence } of spec.holds) this.#keep(task, fence);
  }

  get free(): number {
    return this.#suspended ? 0 : this.credit - this.#unfinished.size - this.pending;
  }

  #keep(task: string, fence: number): void {
    this.#unfinished.set(task, fence);
    this.#pool.holds(this.session.id, task, fence, this);
  }

  let(task: string): void {
    this.#unfinished.delete(task);
    this.dry = false;
    this.#pool.changed(this);
  }

  regain(task: string, fence: number): void {
    this.#unfinished.set(task, fence);
    this.#pool.changed(this);
  }

  take(tasks: readonly ClaimedTask[]): void {
    for (const { task, fence } of tasks) this.#keep(task, fence);
    for (const part of byLine(tasks, this.#lineBytes)) this.#push(part);
  }

  #push(tasks: readonly ClaimedTask[]): void {
    const line = `{"op":"tasks","worker":${JSON.stringify(this.name)},"tasks":[${tasks.map((task) => task.line).join(',')}]}`;
    this.#sink.deliver(line, (fate) => {
      if (fate === 'received' || fate === 'closed') return;
      if (fate === 'silent' && !this.#suspended) {
        this.#suspended = true;
        this.#sink.onPong(() => {
          this.#suspended = false;
          this.dry = false;
          this.#pool.changed(this);
        });
      }
      const still = tasks.filter(({ task, fence }) => this.#unfinished.get(task) === fence);
      this.#pool.giveBack(still, this.session);
    });
  }
}

/** One queue.claim call: it takes once, and its tasks count against nobody's credit. */
class ClaimCall implements Taker, TaskHolder {
  readonly owner: object;
  readonly session: SessionRef;
  readonly name = '';
  readonly queue: string;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  readonly #pool: WorkerPool;
  readonly #done: (tasks: ClaimedTask[]) => void;
  readonly #count: number;
  #timer: NodeJS.Timeout | undefined;
  #over: 'no' | 'soon' | 'yes' = 'no';
  #asked = false;
  pending = 0;
  #dry = false;

  constructor(want: ClaimWant, session: SessionRef, { owner, pool }: Ties, done: (tasks: ClaimedTask[]) => void) {
    this.owner = owner;
    this.session = session;
    this.queue = want.queue;
    this.kinds = want.kinds;
    this.leaseMs = want.leaseMs;
    this.#count = want.count;
    this.#pool = pool;
    this.#done = done;
    if (want.waitMs === 0) this.#over = 'soon';
    else this.#timer = setTimeout(() => this.end(), Math.min(want.waitMs, 2 ** 31 - 1));
  }

  /** One script at a time: two that both find something would take twice the count. */
  get free(): number {
    if (this.pending > 0 || this.#over === 'yes' || (this.#over === 'soon' && this.#asked)) return 0;
    return this.#count;
  }

  get dry(): boolean {
    return this.#dry;
  }

  /** Set by the pool when an answer brought less than was asked for, and cleared by news. */
  set dry(dry: boolean) {
    this.#dry = dry;
    if (dry) this.#asked = true;
    if (dry && this.#over === 'soon' && this.pending === 0) queueMicrotask(() => this.#finish([]));
  }

  take(tasks: readonly ClaimedTask[]): void {
    if (this.#over === 'yes') {
      this.#pool.giveBack(tasks, this.session);
      return;
    }
    for (const { task, fence } of tasks) this.#pool.holds(this.session.id, task, fence, this);
    this.#finish([...tasks]);
  }

  /** The time is over, or the socket is gone. What a script on its way brings still counts. */
  end(): void {
    if (this.#over === 'no' && this.pending > 0) this.#over = 'soon';
    else this.#finish([]);
  }

  /** The socket is gone: what still comes goes back. */
  abandon(): void {
    this.#finish([]);
  }

  #finish(tasks: ClaimedTask[]): void {
    if (this.#over === 'yes') return;
    this.#over = 'yes';
    clearTimeout(this.#timer);
    this.#pool.remove(this);
    this.#done(tasks);
  }

  let(): void {}
  regain(): void {}
}

type ClaimWant = Parameters<Workers['claim']>[0];

/** The workers of one connection. */
export class ConnectionWorkers implements Workers {
  readonly #session: () => SessionRef | undefined;
  readonly #pool: WorkerPool;
  readonly #ties: Ties;
  readonly #workers = new Map<string, PushWorker>();
  readonly #claims = new Set<ClaimCall>();
  #held: string | undefined;

  constructor(session: () => SessionRef | undefined, pool: WorkerPool, sink: WorkersSink, lineBytes: number) {
    this.#session = session;
    this.#pool = pool;
    this.#ties = { owner: this, pool, sink, lineBytes };
  }

  #live(): SessionRef {
    const session = this.#session();
    if (!session) throw new Refusal('SESSION_LOST');
    this.#held = session.id;
    return session;
  }

  declare(spec: WorkerSpec): void {
    const session = this.#live();
    const older = this.#workers.get(spec.worker);
    if (!older && this.#workers.size >= workersMax) {
      throw new Refusal('LIMIT', `a connection declares at most ${workersMax} workers`, {
        details: { max: workersMax },
      });
    }
    if (older) this.#pool.remove(older);
    const worker = new PushWorker(spec, session, this.#ties);
    this.#workers.set(spec.worker, worker);
    this.#pool.add(worker);
  }

  setCredit(name: string, credit: number): boolean {
    const worker = this.#workers.get(name);
    if (!worker) return false;
    worker.credit = credit;
    worker.dry = false;
    this.#pool.changed(worker);
    return true;
  }

  claim(want: ClaimWant): Promise<ClaimedTask[]> {
    const session = this.#live();
    if (this.#claims.size >= claimsMax) throw new Refusal('LIMIT', `at most ${claimsMax} claims wait on a connection`);
    return new Promise((resolve) => {
      const call: ClaimCall = new ClaimCall(want, session, this.#ties, (tasks) => {
        this.#claims.delete(call);
        resolve(tasks);
      });
      this.#claims.add(call);
      this.#pool.add(call);
    });
  }

  dispose(): void {
    for (const worker of this.#workers.values()) this.#pool.remove(worker);
    for (const call of [...this.#claims]) call.abandon();
    this.#workers.clear();
    if (this.#held !== undefined) this.#pool.forgetOwner(this.#held, this);
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
