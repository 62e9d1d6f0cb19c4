import { checkedSignal } from './abort.js';
import { Defer, type DeferOptions, Ended, type EndReason } from './errors.js';
import type { Holder } from './holder.js';
import type { Holding } from './holding.js';
import { type Outcome, type Outcomes, outcomeOf } from './outcomes.js';
import { Progress } from './progress.js';

/** A task as it is handed out. */
export interface Task<P = unknown> {
  readonly task: string;
  readonly queue: string;
  readonly kind?: string;
  readonly payload: P;
  /** 1 for the first. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly fence: number;
  readonly leaseMs?: number;
  readonly timeoutMs?: number;
  readonly deadlineAt?: string;
  /** What an earlier attempt left behind. */
  readonly saved?: unknown;
  readonly metadata?: unknown;
  readonly traceparent?: string;
  readonly grants?: unknown;
}

export interface TaskContext {
  /** Aborts with an `Ended` as reason when the task is no longer ours, or is to be cancelled. */
  readonly signal: AbortSignal;
  /** Tells how far it is; many calls are joined, the last one counts. `saved` is given to the next attempt. */
  readonly progress: (progress: unknown, saved?: unknown) => Promise<void>;
  /** Hands the task back and leaves the handler; the attempt is refunded. */
  readonly defer: (options?: DeferOptions) => never;
  readonly release: (reason?: string) => never;
}

/** Returning completes the task with the value, throwing fails it: see `Defer` and `Fail`. */
export type Handler<P = unknown> = (task: Task<P>, context: TaskContext) => unknown;

export interface RunPorts {
  readonly holder: Holder;
  readonly outcomes: Outcomes;
  readonly progressEveryMs: number;
  /** The fence is no longer ours, or an answer closed the case. Called once. */
  left(run: Run): void;
  /** The handler has settled and nothing of this run is under way any more. Called once. */
  done(run: Run): void;
}

/** How long a handler may go on after it was told to stop before the task is given to somebody else all the same. */
const settleMs = 5000;

/** One attempt of one task, from its push to the answer that closes it. */
export class Run implements Holding {
  readonly lease: string;
  readonly task: Task;
  private readonly handler: Handler;
  private readonly ports: RunPorts;
  private phase: 'waiting' | 'running' | 'reporting' | 'over' = 'waiting';
  private controller: AbortController | undefined;
  private stop: Ended | undefined;
  private progress: Progress | undefined;
  private settled = false;
  private onSettled: (() => void) | undefined;

  constructor(task: Task, handler: Handler, ports: RunPorts) {
    this.lease = `task:${task.task}`;
    this.task = task;
    this.handler = handler;
    this.ports = ports;
  }

  get fence(): number {
    return this.task.fence;
  }

  get leaseMs(): number | undefined {
    return this.task.leaseMs;
  }

  /** Its outcome is on the way: only the answer can tell whether it still counts. */
  get reporting(): boolean {
    return this.phase === 'reporting';
  }

  /** Still in the handler although the task is no longer ours. */
  get isStray(): boolean {
    return this.phase === 'over' && !this.settled;
  }

  begin(): void {
    this.ports.holder.hold(this, () => {
      if (this.phase === 'waiting') void this.run();
    });
  }

  /** Asked to stop, but still ours: what the handler makes of it is reported within the grace. */
  cancel(reason: EndReason): void {
    if (this.phase === 'running' || this.phase === 'waiting') this.abort(reason);
  }

  over(reason: EndReason): void {
    // No time is left to wait for a handler that lingers.
    if (this.isStray && reason === 'drained') this.onSettled?.();
    if (this.phase !== 'running' && this.phase !== 'waiting') return;
    if (this.phase === 'waiting') this.settled = true;
    this.phase = 'over';
    this.ports.holder.drop(this);
    this.abort(reason);
    // The session may live on and keep the task `active` for ever: give it back, best when nobody works on it any more.
    const { outcomes } = this.ports;
    if (reason === 'cannotRenew') {
      outcomes.owe(this.task);
      this.whenSettled(settleMs, () => outcomes.handBack(this.task, reason));
    } else if (reason === 'drained') outcomes.handBack(this.task, reason);
    this.ports.left(this);
    if (this.settled) this.ports.done(this);
  }

  /** What handlers see as `signal`. Made when it is asked for: most handlers never do. */
  readonly signal = (): AbortSignal => {
    if (this.controller) return this.controller.signal;
    this.controller = new AbortController();
    const signal = checkedSignal(this.controller, () => this.ports.holder.check());
    if (this.stop) this.controller.abort(this.stop);
    return signal;
  };

  readonly tell = (progress: unknown, saved?: unknown): Promise<void> => {
    this.ports.holder.check();
    if (this.phase !== 'running') return rejected(this.stop ?? new Ended('closed'));
    this.progress ??= new Progress(this.task, this.ports.outcomes, this.ports.progressEveryMs, () =>
      this.over('staleFence'),
    );
    return this.progress.tell(progress, saved);
  };

  private async run(): Promise<void> {
    this.phase = 'running';
    let outcome: Outcome;
    try {
      outcome = { kind: 'complete', result: await this.handler(this.task, new Context(this)) };
    } catch (error) {
      outcome = outcomeOf(error);
    }
    this.settled = true;
    this.progress?.stop();
    this.ports.holder.check();
    this.onSettled?.();
    // Somebody else may have it: whatever came out is dropped.
    if ((this.phase as string) === 'over') return this.ports.done(this);
    this.phase = 'reporting';
    this.ports.outcomes.report(this.task, outcome, () => this.close());
  }

  private close(): void {
    this.phase = 'over';
    this.ports.holder.drop(this);
    this.ports.left(this);
    this.ports.done(this);
  }

  private abort(reason: EndReason): void {
    if (this.stop) return;
    this.stop = new Ended(reason);
    this.progress?.stop();
    this.controller?.abort(this.stop);
  }

  private whenSettled(limitMs: number, then: () => void): void {
    if (this.settled) {
      then();
      return;
    }
    const timer = setTimeout(() => this.onSettled?.(), limitMs);
    timer.unref();
    this.onSettled = () => {
      clearTimeout(timer);
      this.onSettled = undefined;
      then();
    };
  }
}

/** Getters, so that a handler that asks for nothing costs nothing; bound, so that they may be taken apart. */
class Context implements TaskContext {
  private readonly owner: Run;
  constructor(owner: Run) {
    this.owner = owner;
  }
  get signal(): AbortSignal {
    return this.owner.signal();
  }
  get progress(): TaskContext['progress'] {
    return this.owner.tell;
  }
  get defer(): TaskContext['defer'] {
    return defer;
  }
  get release(): TaskContext['release'] {
    return release;
  }
}

const defer = (options?: DeferOptions): never => {
  throw new Defer(options);
};
const release = (reason = 'released'): never => {
  throw new Defer({ reason });
};

/** A rejection nobody has to listen to. */
function rejected(error: Error): Promise<never> {
  const promise = Promise.reject(error);
  promise.catch(() => {});
  return promise;
}
