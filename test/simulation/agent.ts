import { setTimeout as wait } from 'node:timers/promises';
import { type Any, type Call, isUnknown, type Ledger } from './calls.js';
import { direct, Relay, type Transport } from './peer.js';

export interface HeldTask {
  readonly task: string;
  readonly fence: number;
  readonly queue: string;
  readonly worker: string;
}

interface DeclaredWorker {
  readonly queue: string;
  credit: number;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  /** The daemon has acknowledged it, as it stands, on the socket there is. */
  sure: boolean;
}

const replyMs = 4000;

/**
 * An agent by hand, without the comfort of the SDK: it keeps its session over any number of sockets, remembers what it
 * holds, declares its workers again after a resume, and writes down what it asked and what it heard.
 */
export class Agent {
  readonly name: string;
  readonly relay: boolean;
  readonly ttlMs: number;
  readonly tenant: string;
  readonly ledger: Ledger;
  readonly held = new Map<string, HeldTask>();
  readonly workers = new Map<string, DeclaredWorker>();
  /** Requests about tasks whose outcome is not known: a real client repeats them. */
  readonly unsettled: Call[] = [];
  /** Fences that ended, by task: what a zombie would come back with. */
  readonly past: HeldTask[] = [];
  session: { id: string; key: string } | undefined;
  #process: Relay | undefined;
  #transport: Transport | undefined;
  /** The session that this socket speaks for. */
  #bound = '';
  #open = false;
  #nextId = 1;
  #workerNo = 0;
  readonly #waiting = new Map<number, (line: Any) => void>();
  #ensuring: Promise<boolean> | undefined;
  onLine: ((line: Any) => void) | undefined;

  constructor(options: { name: string; relay: boolean; ttlMs: number; tenant: string; ledger: Ledger }) {
    this.name = options.name;
    this.relay = options.relay;
    this.ttlMs = options.ttlMs;
    this.tenant = options.tenant;
    this.ledger = options.ledger;
  }

  get connected(): boolean {
    return this.#open;
  }

  /** Of the daemon it last went to. */
  url = '';

  get process(): Relay | undefined {
    return this.#process;
  }

  /** A socket and a session, resumed if there was one. False if that did not succeed in time. */
  ensure(url: string): Promise<boolean> {
    this.#ensuring ??= this.#ensure(url).finally(() => {
      this.#ensuring = undefined;
    });
    return this.#ensuring;
  }

  async #ensure(url: string): Promise<boolean> {
    if (!this.#open && !(await this.#connect(url))) return false;
    if (this.session && this.#bound === this.session.id) return true;
    return this.#openSession();
  }

  async #connect(url: string): Promise<boolean> {
    this.url = url;
    this.#bound = '';
    let settle: (opened: boolean) => void = () => undefined;
    const opened = new Promise<boolean>((resolve) => {
      settle = resolve;
    });
    const on = {
      open: () => undefined,
      // The first line is hello: only then the daemon is really there.
      line: (text: string) => {
        const line = JSON.parse(text);
        if (line.op === 'hello') {
          this.#open = true;
          settle(true);
        }
        if (transport === this.#transport) this.#hear(line);
      },
      closed: () => {
        settle(false);
        if (transport === this.#transport) this.#gone();
      },
    };
    if (this.relay && !this.#process?.alive) this.#process = new Relay();
    const transport: Transport = this.relay ? this.#process!.connect(url, on) : direct(url, on);
    this.#transport = transport;
    const done = await Promise.race([opened, wait(3500, false)]);
    if (!done && transport === this.#transport) this.cut();
    return done;
  }

  async #openSession(): Promise<boolean> {
    if (this.session) {
      const { id, key } = this.session;
      const call = await this.call('session.open', { agent: this.name, resume: { session: id, key } });
      if (call.ok) {
        this.#resumed(call);
        return true;
      }
      if (call.error?.code !== 'SESSION_LOST') return false;
      this.#forget();
    }
    const call = await this.call('session.open', { agent: this.name, ttlMs: this.ttlMs, tenant: this.tenant });
    if (!call.ok) return false;
    const { session, key } = call.ok;
    this.session = { id: session, key };
    this.#bound = session;
    this.ledger.proofs.push({ session, sentAt: call.sentAt, ttlMs: this.ttlMs });
    return true;
  }

  #resumed(call: Call): void {
    const { session, holdings } = call.ok;
    this.#bound = session;
    this.ledger.proofs.push({ session, sentAt: call.sentAt, ttlMs: this.ttlMs });
    const truth = new Map<string, Any>(holdings.map((holding: Any) => [holding.name, holding]));
    for (const [task, held] of this.held) if (truth.get(task)?.fence !== held.fence) this.#drop(task);
    for (const { name: task, fence, queue } of holdings) {
      if (!this.held.has(task)) this.held.set(task, { task, fence, queue, worker: '' });
    }
    for (const [worker, declared] of this.workers) void this.#declareAgain(worker, declared);
  }

  async #declareAgain(worker: string, declared: DeclaredWorker): Promise<void> {
    const { queue, credit, kinds, leaseMs } = declared;
    declared.sure = false;
    const more = { ...(kinds ? { kinds } : {}), ...(leaseMs ? { leaseMs } : {}) };
    const { ok } = await this.call('queue.work', { queue, credit, worker, ...more });
    declared.sure = ok !== undefined && declared.credit === credit;
  }

  /** The session is over: a new one owns nothing and has no workers. */
  #forget(): void {
    this.session = undefined;
    this.#bound = '';
    for (const task of [...this.held.keys()]) this.#drop(task);
    this.workers.clear();
  }

  #drop(task: string): void {
    const held = this.held.get(task);
    this.held.delete(task);
    if (held) this.past.push(held);
  }

  async work(params: { queue: string; credit: number; kinds?: readonly string[]; leaseMs?: number }): Promise<Call> {
    const worker = `${this.name}-w${this.#workerNo++}`;
    const { queue, credit, kinds, leaseMs } = params;
    const declared: DeclaredWorker = { queue, credit, kinds, leaseMs, sure: false };
    this.workers.set(worker, declared);
    const call = await this.call('queue.work', {
      queue,
      credit,
      worker,
      ...(kinds ? { kinds } : {}),
      ...(leaseMs ? { leaseMs } : {}),
    });
    declared.sure = call.ok !== undefined;
    if (call.error && !isUnknown(call)) this.workers.delete(worker);
    return call;
  }

  call(op: string, params: Any, limitMs = replyMs): Promise<Call> {
    const call: Call = {
      agent: this.name,
      session: this.#bound,
      op,
      params,
      sentAt: Date.now(),
      doneAt: Number.POSITIVE_INFINITY,
    };
    this.ledger.add(call);
    if (!this.#open || !this.#transport) return Promise.resolve(call);
    const id = this.#nextId++;
    const transport = this.#transport;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        // A client that hears nothing gives the link up.
        if (transport === this.#transport) this.cut();
        resolve(call);
      }, limitMs);
      this.#waiting.set(id, (line) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        if (line) {
          call.doneAt = Date.now();
          if (line.error) call.error = line.error;
          else call.ok = line.ok;
        }
        this.#learn(call);
        resolve(call);
      });
      transport.send(JSON.stringify({ id, op, params }));
    });
  }

  /** What an answer means for what the agent holds. */
  #learn(call: Call): void {
    const { op, params, ok, error } = call;
    if (error?.code === 'SESSION_LOST' && op !== 'session.open' && call.session === this.#bound) this.#forget();
    if (op === 'ping' && ok && call.session) {
      this.ledger.proofs.push({ session: call.session, sentAt: call.sentAt, ttlMs: this.ttlMs });
    }
    if (op === 'queue.claim' && ok) {
      for (const task of ok.tasks) this.#take(task, '', call.session);
    }
    if (!['queue.complete', 'queue.fail', 'queue.release'].includes(op)) return;
    if (isUnknown(call)) this.unsettled.push(call);
    else if (ok) {
      params.tasks.forEach(({ task, fence }: Any, i: number) => {
        const code = ok.tasks[i].error?.code;
        if (
          this.held.get(task)?.fence === fence &&
          (code === undefined || code === 'STALE_FENCE' || code === 'NOT_FOUND')
        )
          this.#drop(task);
      });
    }
  }

  #take(task: Any, worker: string, session: string): void {
    this.ledger.deliveries.push({ agent: this.name, session, worker, task, at: Date.now() });
    if (session === this.#bound)
      this.held.set(task.task, { task: task.task, fence: task.fence, queue: task.queue, worker });
  }

  #hear(line: Any): void {
    if (line.id !== undefined) this.#waiting.get(line.id)?.(line);
    else if (line.op === 'tasks') for (const task of line.tasks) this.#take(task, line.worker, this.#bound);
    else if (line.op === 'revoked') {
      for (const { task, fence } of line.tasks) if (this.held.get(task)?.fence === fence) this.#drop(task);
    } else if (line.op === 'lost' && line.kind === 'session' && line.name === this.#bound) this.#forget();
    else if (line.op === 'closed' && line.code === 4400)
      this.ledger.problems.push(`${this.name}: closed for misuse: ${line.reason}`);
    this.onLine?.(line);
  }

  #gone(): void {
    this.#open = false;
    this.#transport = undefined;
    for (const settle of [...this.#waiting.values()]) settle(undefined);
  }

  cut(): void {
    const transport = this.#transport;
    this.#gone();
    transport?.cut();
  }

  #closes(): void {
    if (!this.ledger.closings.has(this.name)) this.ledger.closings.set(this.name, Date.now());
  }

  /** A close frame with 1000: the session ends with it. */
  close(): void {
    this.#closes();
    const transport = this.#transport;
    this.#gone();
    transport?.close();
    this.#forget();
  }

  async closeSession(): Promise<void> {
    if (!this.session) return;
    this.#closes();
    const call = await this.call('session.close', {});
    if (call.ok) this.#forget();
  }

  kill(): void {
    this.#process?.kill();
    this.#process = undefined;
    if (!this.relay) this.cut();
  }

  stop(): void {
    this.cut();
    this.#process?.kill();
  }
}
