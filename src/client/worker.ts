import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../lib/ids.js';
import { Credit } from './credit.js';
import type { Closed } from './errors.js';
import type { Done } from './requests.js';
import { type Handler, Run, type RunPorts, type Task } from './run.js';

export interface WorkOptions {
  /** How many tasks at once; also the credit the daemon is asked for, so all that comes is started. */
  concurrency?: number;
  kinds?: readonly string[];
  /** A lease of its own for each task, renewed while the handler runs; else tasks live with the session. */
  leaseMs?: number;
  /** Name of this worker, for the daemon's lists. */
  worker?: string;
  /** At most one progress report of a task in this time. */
  progressEveryMs?: number;
}

export interface StopOptions {
  /** How long running handlers may go on before their tasks are handed back. */
  limitMs?: number;
}

export interface WorkerPorts extends Pick<RunPorts, 'holder' | 'outcomes'> {
  readonly call: (op: 'queue.work' | 'queue.credit', params: Record<string, unknown>, done: Done) => void;
  readonly isOnline: () => boolean;
  started(run: Run): void;
  left(run: Run): void;
  /** What it may take has changed. */
  changed(): void;
  gone(worker: Worker): void;
  onError(error: Error): void;
}

export const creditMax = 1000;
export const stopLimitMs = 30_000;
/** How long a stop waits for the answers to what it handed back. */
const handBackMs = 2000;

/**
 * Takes tasks of one queue and runs each as it comes. The daemon never gives more than the credit, so nothing waits
 * here. A handler that goes on after its task was taken away still fills a place: the credit shrinks by it.
 */
export class Worker {
  readonly id: string;
  readonly queue: string;
  /** The daemon knows this worker. Rejects if it refuses it. */
  readonly ready: Promise<void>;
  private readonly runs = new Set<Run>();
  /** Those of `runs` whose task was taken away while the handler goes on. */
  private readonly strays = new Set<Run>();
  private readonly handler: Handler;
  private readonly options: WorkOptions;
  private readonly ports: WorkerPorts;
  private readonly runPorts: RunPorts;
  private places: number;
  private stopping: Promise<void> | undefined;
  private readonly told: Credit;
  private idle: (() => void) | undefined;

  constructor(queue: string, options: WorkOptions, handler: Handler, ports: WorkerPorts) {
    this.id = options.worker ?? newId();
    this.queue = queue;
    this.handler = handler;
    this.options = options;
    this.ports = ports;
    this.places = checked(options.concurrency ?? 1);
    const { holder, outcomes } = ports;
    const progressEveryMs = options.progressEveryMs ?? 250;
    this.runPorts = { holder, outcomes, progressEveryMs, left: (run) => this.left(run), done: (run) => this.done(run) };
    this.told = this.makeCredit();
    this.ready = this.tune();
  }

  /** How many it runs at most. */
  get size(): number {
    return this.places;
  }

  /** Handlers that have not returned, and outcomes that are not answered. */
  get running(): number {
    return this.runs.size;
  }

  /** Changes how many tasks run at once; what runs already is never stopped by it. Resolves when the daemon knows. */
  scale(places: number): Promise<void> {
    this.places = checked(places);
    return this.tune();
  }

  /** Takes nothing more, lets the handlers finish and their outcomes be answered; after the limit hands back the rest. */
  stop({ limitMs = stopLimitMs }: StopOptions = {}): Promise<void> {
    this.stopping ??= this.finish(limitMs);
    return this.stopping;
  }

  /** True while it may be given work. */
  get takes(): boolean {
    return this.credit > 0;
  }

  start(task: Task): void {
    const run = new Run(task, this.handler, this.runPorts);
    this.runs.add(run);
    this.ports.started(run);
    run.begin();
  }

  /** A new connection, or a new session: the daemon has to be told again. */
  declare(): void {
    this.told.renew();
  }

  /** The connection is over, for good. */
  end(closed: Closed): void {
    this.told.end(closed);
  }

  get isStopping(): boolean {
    return this.stopping !== undefined;
  }

  private get credit(): number {
    return this.stopping ? 0 : Math.max(0, this.places - this.strays.size);
  }

  private makeCredit(): Credit {
    const { id: worker, queue, ports } = this;
    const { kinds, leaseMs } = this.options;
    return new Credit({
      wanted: () => this.credit,
      isOnline: ports.isOnline,
      declare: (credit, done) => ports.call('queue.work', { worker, queue, credit, kinds, leaseMs }, done),
      change: (credit, done) => ports.call('queue.credit', { worker, credit }, done),
      onError: ports.onError,
    });
  }

  private tune(): Promise<void> {
    this.ports.changed();
    return this.told.tell();
  }

  private left(run: Run): void {
    this.ports.left(run);
    if (!run.isStray) return;
    this.strays.add(run);
    // A handler that heeds its signal is gone before this; only one that lingers costs a place.
    setImmediate(() => this.told.ask());
  }

  private done(run: Run): void {
    this.runs.delete(run);
    if (this.strays.delete(run)) this.told.ask();
    if (this.runs.size === 0) this.idle?.();
  }

  private async finish(limitMs: number): Promise<void> {
    // The promise is set by the caller after this runs, so `credit` must be 0 from the next microtask on.
    await Promise.resolve();
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    const idle = new Promise<void>((resolve) => {
      this.idle = resolve;
      if (this.runs.size === 0) resolve();
    });
    // Once the daemon has heard that the credit is 0, no push can be on its way any more.
    await Promise.race([limit, Promise.all([this.tune().catch(() => {}), idle])]);
    clearTimeout(timer);
    for (const run of [...this.runs]) run.over('drained');
    await Promise.race([this.ports.outcomes.returned(), sleep(handBackMs, undefined, { ref: false })]);
    this.ports.gone(this);
  }
}

function checked(places: number): number {
  if (Number.isInteger(places) && places >= 0 && places <= creditMax) return places;
  throw new RangeError(`concurrency is an integer from 0 to ${creditMax}, not ${places}`);
}
