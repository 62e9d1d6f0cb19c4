import { Refusal, type WireError } from '../errors.js';
import type { Closed, EndReason } from './errors.js';
import type { Holder } from './holder.js';
import type { Outcomes } from './outcomes.js';
import type { Requests } from './requests.js';
import type { Handler, Run, Task } from './run.js';
import type { Frame } from './socket.js';
import { type StopOptions, Worker, type WorkerPorts, type WorkOptions } from './worker.js';

/** A row of `holdings` or of `lease.list`. */
export interface HoldingRow {
  readonly lease: string;
  readonly kind: string;
  readonly state?: string;
  readonly fence?: number;
}

interface TaskFence {
  readonly task: string;
  readonly fence: number;
}

/** All workers of a client, and the tasks it holds: by its workers, or claimed by hand. */
export class Crew {
  private readonly workers = new Map<string, Worker>();
  private readonly runs = new Map<string, Run>();
  private readonly claimed = new Map<string, number>();
  private readonly holder: Holder;
  private readonly outcomes: Outcomes;
  private readonly ports: WorkerPorts;
  private online = false;

  constructor(
    requests: Requests,
    holder: Holder,
    outcomes: Outcomes,
    { timeoutMs, onError }: { readonly timeoutMs: number; onError(error: Error): void },
  ) {
    this.holder = holder;
    this.outcomes = outcomes;
    const traits = { lane: 'direct', repeat: false, timeoutMs } as const;
    this.ports = {
      holder,
      outcomes,
      call: (op, params, done) => requests.send(op, JSON.stringify(params), traits, done),
      isOnline: () => this.online,
      started: (run) => this.runs.set(run.task.task, run),
      left: (run) => this.forget(run),
      changed: () => this.changed(),
      gone: (worker) => this.gone(worker),
      onError,
    };
  }

  work(queue: string, options: WorkOptions, handler: Handler): Worker {
    if (options.worker !== undefined && this.workers.has(options.worker)) {
      throw new Refusal('CONFLICT', `a worker ${options.worker} is at work already`);
    }
    const worker = new Worker(queue, options, handler, this.ports);
    this.workers.set(worker.id, worker);
    this.changed();
    return worker;
  }

  /** The session is open: every worker is declared. */
  open(): void {
    this.online = true;
    for (const worker of this.workers.values()) worker.declare();
  }

  offline(): void {
    this.online = false;
  }

  tasks(frame: Frame): void {
    const worker = this.workers.get(frame.worker as string);
    for (const task of frame.tasks as Task[]) {
      const before = this.runs.get(task.task);
      // Told twice is told once; under a new fence it is another attempt, and the one we had is over.
      if (before?.fence === task.fence) continue;
      before?.over('revoked');
      if (worker && !worker.isStopping) worker.start(task);
      else this.undelivered(task);
    }
  }

  revoked(frame: Frame): void {
    for (const { task, fence, reason } of frame.tasks as (TaskFence & { reason: EndReason })[]) {
      const run = this.runs.get(task);
      if (run && run.fence === fence) run.over(reason);
      if (this.claimed.get(task) === fence) this.claimed.delete(task);
    }
  }

  cancel(frame: Frame): void {
    const run = this.runs.get(frame.task as string);
    if (run && run.fence === frame.fence) run.cancel(frame.reason as EndReason);
  }

  /** `holdings` is the truth: what is not in it has ended, and a task in it that we never saw had its push lost. */
  reconcile(rows: readonly HoldingRow[]): void {
    const held = new Map<string, number>();
    for (const { lease, kind, state = 'held', fence } of rows) {
      if (kind === 'task' && state === 'held' && fence !== undefined) held.set(lease.slice('task:'.length), fence);
    }
    for (const [task, run] of [...this.runs]) {
      // An outcome that is on its way is repeated, and its answer tells.
      if (held.get(task) !== run.fence && !run.reporting) run.over('revoked');
    }
    for (const [task, fence] of this.claimed) if (held.get(task) !== fence) this.claimed.delete(task);
    for (const [task, fence] of held) {
      if (this.runs.get(task)?.fence === fence || this.claimed.get(task) === fence) continue;
      if (!this.outcomes.owes(task, fence)) this.undelivered({ task, fence });
    }
  }

  /** A `queue.claim` by hand was answered; `late` when its caller has given up on it. */
  claims(ok: Frame, late: boolean): void {
    for (const task of (ok.tasks ?? []) as TaskFence[]) {
      if (late) this.undelivered(task);
      else this.claimed.set(task.task, task.fence);
    }
    this.changed();
  }

  /** `queue.complete`, `fail` or `release` by hand: what was answered is off our books. */
  settled(params: readonly TaskFence[], answers: readonly { error?: WireError }[]): void {
    params.forEach(({ task, fence }, i) => {
      const code = answers[i]?.error?.code;
      const isClosed = code === undefined || code === 'STALE_FENCE' || code === 'NOT_FOUND';
      if (isClosed && this.claimed.get(task) === fence) this.claimed.delete(task);
    });
    this.changed();
  }

  lost(reason: EndReason): void {
    this.claimed.clear();
    for (const run of [...this.runs.values()]) run.over(reason);
  }

  /** The connection is over, for good: whoever waits for a worker is told. */
  end(closed: Closed): void {
    this.lost('closed');
    for (const worker of this.workers.values()) worker.end(closed);
  }

  async stop(options: StopOptions): Promise<void> {
    await Promise.all([...this.workers.values()].map((worker) => worker.stop(options)));
  }

  private undelivered(task: TaskFence): void {
    this.outcomes.handBack(task, 'undelivered');
  }

  private forget(run: Run): void {
    const { task } = run.task;
    if (this.runs.get(task) === run) this.runs.delete(task);
  }

  private gone(worker: Worker): void {
    this.workers.delete(worker.id);
    this.changed();
  }

  private changed(): void {
    let expecting = this.claimed.size > 0;
    for (const worker of this.workers.values()) expecting ||= worker.takes;
    if (expecting === this.holder.expecting) return;
    this.holder.expecting = expecting;
    this.holder.wake();
  }
}
