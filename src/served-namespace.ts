import { main as derive } from '../streams/index.js';
import { Gauges } from './backpressure/gauges.js';
import { Memory } from './backpressure/memory.js';
import { Producers } from './backpressure/producers.js';
import type { Config } from './config.js';
import type { NamespaceParts } from './gateway/hooks.js';
import { guarded } from './gateway/probes.js';
import type { Registry } from './gateway/registry.js';
import { WorkerPool } from './gateway/workers.js';
import { SessionKeeper } from './lease/keeper.js';
import { Loop } from './lib/loop.js';
import type { Service } from './lib/service.js';
import { LimitJoins } from './limit/joins.js';
import { limitHandlers } from './limit/pushes.js';
import { LockJoins } from './lock/joins.js';
import { lockHandlers } from './lock/pushes.js';
import { pushLine } from './protocol/frame.js';
import { Finishes } from './queue/finishes.js';
import { QueueJoins } from './queue/joins.js';
import { stillHeld } from './queue/still-held.js';
import { heldByWorker } from './queue/work.js';
import { type Handlers, Reactor } from './reactor.js';
import type { Client, ScriptRunner } from './redis/connection.js';
import { deadline } from './redis/deadline.js';
import { EventLog } from './redis/event-log.js';
import type { LogBatch } from './redis/log-entry.js';
import { Namespace } from './redis/namespace.js';
import { leave, sweeps, watchMemory } from './sweeps/index.js';

export interface ServedOptions {
  readonly name: string;
  readonly daemon: string;
  readonly config: Config;
  readonly runner: ScriptRunner;
  readonly openReader: () => Client;
  readonly registry: Registry;
  readonly onError: (what: string, error: unknown) => void;
}

const neverByHolder = new Set(['leaseLapsed', 'timedOut', 'revoked']);
const endTypes = new Set(['task.completed', 'task.dead', 'task.cancelled', 'task.expired', 'task.removed']);

/** Everything this daemon keeps for one namespace, and the ring around it: log → streams → reactor → commands → log. */
export class ServedNamespace implements Service {
  readonly name: string;
  readonly namespace: Namespace;
  readonly queues: QueueJoins;
  readonly locks: LockJoins;
  readonly limits: LimitJoins;
  readonly producers = new Producers();
  readonly finishes = new Finishes();
  readonly sessions: SessionKeeper;
  readonly pool: WorkerPool;
  readonly log: EventLog;
  readonly #loops: Readonly<Record<keyof typeof sweeps | 'gauges' | 'memory' | 'wakeWorkers', Loop>>;
  readonly #gauges: Gauges;
  readonly #memory: Memory;
  readonly #reactor: Reactor;
  readonly #onError: ServedOptions['onError'];
  #started = false;

  constructor({ name, daemon, config, runner, openReader, registry, onError }: ServedOptions) {
    this.name = `namespace ${name}`;
    this.#onError = onError;
    const namespace = new Namespace(name, runner, {
      daemon,
      eventsMax: config.log.eventsMax,
      ttlMs: config.session.ttlMs,
    });
    this.namespace = namespace;
    this.pool = new WorkerPool(
      (session, worker, queue) => heldByWorker(namespace, session, worker, queue),
      (session, tasks) => stillHeld(namespace, session, tasks),
      (error) => onError(`handing back in ${name}`, error),
    );
    this.#memory = new Memory(namespace);
    this.queues = new QueueJoins(namespace, this.pool, this.#memory, config.queue);
    this.pool.bind(this.queues);
    this.locks = new LockJoins(namespace, registry, this.#memory, config.lock, () => this.#loops.lockDue.soon());
    this.limits = new LimitJoins(namespace, this.#memory, config.limit, (ms) => this.#loops.limitDue.soon(ms));
    this.sessions = new SessionKeeper(namespace, {
      lost: (session) => void registry.lost(session, 'expired'),
      replaced: (session) => registry.replace({ id: session, binding: Number.POSITIVE_INFINITY }),
    });
    const onReaderError = (error: unknown): void => onError(`the log reader of ${name}`, error);
    this.log = new EventLog({
      namespace,
      open: openReader,
      readBlockMs: config.log.readBlockMs,
      onError: onReaderError,
    });
    this.#gauges = new Gauges(namespace, {
      credit: (queue) => this.pool.credit(queue),
      lagMs: () => Math.max(0, this.log.readerAgeMs - config.log.readBlockMs),
      onError: (error) => onError('gauges', error),
    });
    this.#loops = this.#makeLoops(config);
    const sinks = derive({ batch$: this.log.batch$, daemon });
    const handlers = this.#handlers(registry);
    this.#reactor = new Reactor(name, [sinks.intents$, sinks.pushes$], handlers, (error) => onError(this.name, error));
    this.log.batch$.subscribe({
      next: (batch) => guarded('ends of tasks', () => this.#tellEnds(batch)),
      error: (error) => onError(this.name, error),
    });
  }

  /** What commands get of it. Before it is served they only read. */
  parts(): NamespaceParts {
    const { namespace, queues, locks, limits, producers, finishes, sessions } = this;
    return { namespace, queues, locks, limits, producers, finishes, sessions, served: this.#started };
  }

  async start(): Promise<void> {
    if (this.#started) return;
    await this.log.start();
    await this.locks.durability.look();
    await this.#reactor.start();
    await this.sessions.start();
    for (const loop of Object.values(this.#loops)) await loop.start();
    this.#started = true;
  }

  /** Leaves the log last: what the stop itself causes is still told. What was handed back is in Redis before. */
  async stop(): Promise<void> {
    if (!this.#started) return;
    this.#started = false;
    await Promise.all(Object.values(this.#loops).map((loop) => loop.stop()));
    await this.sessions.stop();
    await deadline(Promise.all([this.queues.idle(), this.locks.idle(), this.limits.idle()]), 5000).catch((error) =>
      this.#onError('handing back', error),
    );
    await this.#reactor.stop();
    this.#gauges.stop();
    await leave(this.namespace).catch((error) => this.#onError('leaving', error));
    await this.log.stop();
  }

  #makeLoops(config: Config) {
    const { everyMs } = config.sweep;
    // Every script looks at the clock; one that comes more than 5 s after the last takes that for an outage, and leases
    // stand still. So something runs at least this often, however rarely the sweeps are wanted.
    const beatMs = Math.min(everyMs, 2000);
    const loop = (name: string, work: () => Promise<number | undefined>): Loop => {
      const ms = name === 'housekeeping' ? beatMs : everyMs;
      return new Loop(`${name} ${this.namespace.name}`, ms, work, (error) => this.#onError(name, error));
    };
    const sweep = (name: keyof typeof sweeps): Loop => loop(name, () => sweeps[name](this.namespace, config));
    return {
      promote: sweep('promote'),
      expireTasks: sweep('expireTasks'),
      expireSessions: sweep('expireSessions'),
      lockDue: loop('lockDue', async () => {
        await this.locks.durability.look();
        return sweeps.lockDue(this.namespace, config);
      }),
      limitDue: loop('limitDue', async () => {
        await this.limits.adopt();
        return sweeps.limitDue(this.namespace, config);
      }),
      onceDue: sweep('onceDue'),
      retention: sweep('retention'),
      housekeeping: sweep('housekeeping'),
      gauges: loop('gauges', () => {
        this.producers.forget();
        return this.#gauges.runOnce();
      }),
      memory: loop('memory', () => watchMemory(this.#memory, this.namespace, config)),
      // Whatever news was missed: an idle worker asks at least this often.
      wakeWorkers: loop('wake workers', async () => {
        this.pool.wakeAll();
        return undefined;
      }),
    };
  }

  #handlers(registry: Registry): Handlers {
    const { pool } = this;
    return {
      dispatch: ({ queue, taskKind, count }) => pool.ready(queue, taskKind, count),
      due: ({ at }) => this.#loops.promote.soon(Math.max(0, at - Date.now())),
      giveBack: () => this.#loops.expireSessions.soon(),
      ...limitHandlers(this.limits, registry, (at) => this.#loops.limitDue.soon(Math.max(0, at - Date.now()))),
      resync: () => {
        pool.wakeAll();
        this.finishes.wakeAll();
        this.limits.forget();
        for (const loop of Object.values(this.#loops)) loop.soon();
      },
      cancel: ({ session, task, fence, reason, graceMs }) => {
        registry.push(session, pushLine('cancel', { task, fence, reason, graceMs }));
        this.#loops.expireTasks.soon(graceMs);
      },
      revoked: ({ session, task, fence, reason }) => {
        // A task its own holder has ended counts as held no longer: it is not told what it did. What no holder does
        // itself is told also of tasks that it kept over a resume and declared no worker for.
        if (!pool.taken(session, task, fence) && !neverByHolder.has(reason)) return;
        registry.push(session, pushLine('revoked', { tasks: [{ task, fence, reason }] }));
      },
      ...lockHandlers(this.locks.grants, registry, (at) => this.#loops.lockDue.soon(Math.max(0, at - Date.now()))),
      pressure: (pressure) => this.producers.tell(pressure),
      lostOnce: ({ session, key, fence, reason }) =>
        registry.push(session, pushLine('lost', { kind: 'once', name: key, fence, reason })),
      lost: ({ session, reason }) => void registry.lost(session, reason),
      replaced: ({ session, binding }) => registry.replace({ id: session, binding }),
    };
  }

  #tellEnds(batch: LogBatch): void {
    if (this.finishes.size === 0) return;
    for (const item of batch) {
      if (item.kind !== 'entry' || !item.types.some((type) => endTypes.has(type))) continue;
      for (const event of item.events) {
        if (event.own && endTypes.has(event.type) && event.subject !== null) this.finishes.ended(event.subject);
      }
    }
  }
}
