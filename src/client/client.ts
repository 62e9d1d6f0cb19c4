import { domains } from './api.js';
import { callsOf } from './calls.js';
import type { Core } from './core.js';
import { type ElectOptions, type Elector, elect, type Lead, type TermNews, terms } from './elect.js';
import { Closed, type DeferOptions, type FailOptions } from './errors.js';
import { type Faces, faceOf, facesOf, parted } from './faces.js';
import type { SubscribeOptions } from './feed.js';
import type { Joiner } from './joiner.js';
import { type Observable, observableOf } from './observable.js';
import { isRepeatable, laneOf, named, withIds } from './ops.js';
import type { Pressure, Settings } from './options.js';
import type { Handler } from './run.js';
import type { Identity } from './session.js';
import type { Listener, Subscription } from './subscription.js';
import { type StopOptions, stopLimitMs, type Worker, type WorkOptions } from './worker.js';

export interface EnqueueOptions {
  /** Id of the task, chosen here if left out. The same id and payload again is the same task. */
  task?: string;
  /** Unique in its queue while the task lives and for a while after it completed. */
  key?: string;
  priority?: number;
  tenant?: string;
  kind?: string;
  delayMs?: number;
  runAt?: string;
  startByMs?: number;
  deadlineMs?: number;
  timeoutMs?: number;
  leaseMs?: number;
  maxAttempts?: number;
  backoff?: { kind?: 'exponential'; baseMs?: number; capMs?: number; jitter?: 'full' };
  metadata?: unknown;
  traceparent?: string;
}

export interface Enqueued {
  readonly task: string;
  readonly state: string;
  readonly deduplicated?: boolean;
}

export interface Published {
  readonly position: string;
  readonly duplicate?: boolean;
}

export interface TaskResult<R = unknown> {
  readonly state: string;
  readonly result?: R;
  readonly error?: { readonly message: string; readonly code?: string; readonly data?: unknown };
}

export interface PublishOptions {
  subject?: string;
  id?: string;
  source?: string;
}

/** A task with the fence it was claimed under. */
export interface Owned {
  readonly task: string;
  readonly fence: number;
}

/** How long `close` waits for the answers that are still out once the workers have stopped. */
const lastAnswersMs = 5000;
const goodbyeMs = 2000;
/** Neither a good-bye (1000, 1001) nor a code of the protocol: to the daemon the socket broke. */
const leftCode = 4000;

export class Client {
  private readonly core: Core;
  private readonly settings: Settings;
  private readonly faces: Faces;
  private closing: Promise<void> | undefined;

  constructor(core: Core, settings: Settings) {
    this.core = core;
    this.settings = settings;
    this.faces = facesOf(core);
    for (const domain of domains) {
      const calls = callsOf(domain, (op, params) => this.call(op, params));
      Object.defineProperty(this, domain, { value: faceOf(calls, Reflect.get(this.faces, domain)) });
    }
  }

  /** Who we are to the daemon; `connect({ resume })` takes it. Undefined without a session. */
  get identity(): Identity | undefined {
    return this.core.session.identity;
  }

  /** The feed was received up to here. */
  get position(): string | undefined {
    return this.core.feed.position;
  }

  /** Resolves when the connection has ended for good, with the reason. */
  get closed(): Promise<Closed> {
    return this.core.closed;
  }

  /** Any op by its name; the typed calls end here as well. */
  call(op: string, params: Record<string, unknown> = {}): Promise<unknown> {
    this.core.holder.check();
    const { agent, namespace, timeoutMs } = this.settings;
    const isHere = agent !== undefined || namespace === undefined || op === 'ping' || params.namespace !== undefined;
    const full = withIds(op, isHere ? params : { ...params, namespace });
    const waitMs = typeof params.waitMs === 'number' ? params.waitMs : 0;
    const late = op === 'queue.claim' ? { late: (ok: Record<string, unknown>) => this.core.crew.claims(ok, true) } : {};
    const traits = { lane: laneOf(op), repeat: isRepeatable(op), timeoutMs: timeoutMs + waitMs, ...late };
    return new Promise((resolve, reject) => {
      this.core.requests.send(op, JSON.stringify(full), traits, (error, ok) => {
        if (error) return reject(error);
        this.keepBooks(op, full, ok);
        resolve(ok);
      });
    });
  }

  async ping(data?: unknown): Promise<{ data?: unknown; serverAt: string; epoch: string }> {
    return (await this.call('ping', data === undefined ? {} : { data })) as { serverAt: string; epoch: string };
  }

  /** Calls of one turn leave as one request; each has its own answer. */
  enqueue(queue: string, payload: unknown, options: EnqueueOptions = {}): Promise<Enqueued> {
    const rest = JSON.stringify(named('task', options));
    const text = `{"payload":${JSON.stringify(payload) ?? 'null'},${rest.slice(1)}`;
    return this.join(this.core.batches.enqueue(queue), text) as Promise<Enqueued>;
  }

  /** For tasks claimed by hand (`sb.queue.claim`); a worker does it by itself. */
  async complete({ task, fence }: Owned, result?: unknown): Promise<{ state: string }> {
    return this.close1('complete', { task, fence }, { task, fence, result });
  }

  async fail({ task, fence }: Owned, error: Error | string, options: FailOptions = {}): Promise<{ state: string }> {
    const { code, data, retry, afterMs } = options;
    const message = typeof error === 'string' ? error : error.message;
    return this.close1('fail', { task, fence }, { task, fence, error: { message, code, data }, retry, afterMs });
  }

  async release(
    { task, fence }: Owned,
    { reason = 'released', afterMs, saved }: DeferOptions = {},
  ): Promise<{ state: string }> {
    return this.close1('release', { task, fence }, { task, fence, reason, afterMs, saved });
  }

  /** Takes tasks of `queue` and runs them, `concurrency` at once (1). */
  work<P = unknown>(queue: string, options: WorkOptions, handler: Handler<P>): Worker {
    return this.core.crew.work(queue, options, handler as Handler);
  }

  /** A worker whose size is meant to change: `pool.scale(n)`. */
  pool<P = unknown>(
    queue: string,
    { size = 1, ...options }: Omit<WorkOptions, 'concurrency'> & { size?: number },
    handler: Handler<P>,
  ): Worker {
    return this.work(queue, { ...options, concurrency: size }, handler);
  }

  /** Stands for leader under `name` until `options.signal` aborts; `lead` runs while we are. */
  elect(name: string, lead: Lead): Promise<void>;
  elect(name: string, options: ElectOptions, lead: Lead): Promise<void>;
  elect(name: string, options: ElectOptions | Lead, lead?: Lead): Promise<void> {
    return elect(this.elector, name, ...parted<ElectOptions, Lead>('sb.elect(name, options, lead)', options, lead));
  }

  /** Every term of an election, who led it and how it ended, and where something was missed. */
  terms(name: string, listener: (news: TermNews) => unknown): Promise<Subscription> {
    return terms(this.elector, name, listener);
  }

  /** With a listener it is called for each delivery; without one the subscription is iterated: `for await`. */
  subscribe(options: SubscribeOptions, listener?: Listener): Promise<Subscription> {
    return this.core.feed.subscribe(options, listener);
  }

  /** The same as an observable, which `rxjs.from` takes. */
  observe(options: SubscribeOptions): Observable {
    return observableOf((next) => this.core.feed.subscribe(options, next));
  }

  /** Waits until the task has ended, or the time is over: see `state`. */
  async result<R = unknown>(task: string, { waitMs = 60_000 }: { waitMs?: number } = {}): Promise<TaskResult<R>> {
    return (await this.call('queue.result', { task, waitMs })) as TaskResult<R>;
  }

  /** Calls of one turn leave as one request. The id makes a repeat after a lost answer harmless. */
  publish(type: string, data?: unknown, options: PublishOptions = {}): Promise<Published> {
    const text = JSON.stringify({ type, data, ...named('id', options) });
    return this.join(this.core.batches.publish, text) as Promise<Published>;
  }

  /** Workers take nothing more and finish; after `limitMs` (30 s) the rest is handed back; then the session is closed. */
  close(options: StopOptions = {}): Promise<void> {
    this.closing ??= this.finish(options);
    return this.closing;
  }

  /** Goes without closing the session: what it holds stays until its ttl, and `connect({ resume: identity })` goes on with it. */
  leave(): void {
    this.core.end(new Closed(1000, 'left'), leftCode);
  }

  private async finish({ limitMs = stopLimitMs }: StopOptions): Promise<void> {
    const { crew, requests, session } = this.core;
    await crew.stop({ limitMs });
    await atMost(Math.min(limitMs, lastAnswersMs), requests.idle());
    // Nobody is there to say goodbye to: the session ends with its ttl.
    if (this.core.isOpen) await session.close(goodbyeMs).catch(() => {});
    this.core.end(new Closed(1000, 'closed by the client'));
  }

  private get elector(): Elector {
    return { lock: this.faces.lock, subscribe: (options, listener) => this.subscribe(options, listener) };
  }

  private join(joiner: Joiner, text: string): Promise<unknown> {
    return new Promise((resolve, reject) => joiner.add(text, (error, ok) => (error ? reject(error) : resolve(ok))));
  }

  private async close1(verb: 'complete' | 'fail' | 'release', owned: Owned, item: object): Promise<{ state: string }> {
    this.core.holder.check();
    const answer = (await this.join(this.core.batches[verb], JSON.stringify(item))) as { state: string };
    this.core.crew.settled([owned], [{}]);
    return answer;
  }

  /** What was claimed or ended by hand is noted, so that a resume can tell a lost push from a task we know. */
  private keepBooks(op: string, params: Record<string, unknown>, ok: Record<string, unknown>): void {
    if (op === 'queue.enqueue')
      this.core.batches.pressed({ queue: params.queue, ...(ok.pressure as object) } as Pressure);
    else if (op === 'queue.claim') this.core.crew.claims(ok, false);
    else if (op === 'queue.complete' || op === 'queue.fail' || op === 'queue.release') {
      this.core.crew.settled((params.tasks ?? []) as Owned[], (ok.tasks ?? []) as object[]);
    }
  }
}

function atMost(limitMs: number, promise: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limitMs);
    promise.finally(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
