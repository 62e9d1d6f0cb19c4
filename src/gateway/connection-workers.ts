import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import type { ClaimedTask, HeldTask, WorkerSpec } from '../queue/port.js';
import { ClaimCall, type ClaimWant } from './claim-call.js';
import { PushWorker, type Ties } from './push-worker.js';
import type { Workers, WorkersSink } from './sinks.js';
import type { Owner } from './worker.js';
import type { WorkerPool } from './workers.js';

/** Workers and waiting claims a connection may have. */
const workersMax = 64;
const claimsMax = 1000;

/** The workers of one connection. */
export class ConnectionWorkers implements Workers, Owner {
  gone = false;
  readonly #session: () => SessionRef | undefined;
  readonly #pool: WorkerPool;
  readonly #ties: Ties;
  readonly #workers = new Map<string, PushWorker>();
  readonly #claims = new Set<ClaimCall>();
  /** Whose workers they are, once there are any. */
  #held: SessionRef | undefined;

  constructor(session: () => SessionRef | undefined, pool: WorkerPool, sink: WorkersSink, lineBytes: number) {
    this.#session = session;
    this.#pool = pool;
    this.#ties = { owner: this, pool, sink, lineBytes, silent: new Set(), blocked: false };
  }

  #live(): SessionRef {
    const session = this.#session();
    if (!session) throw new Refusal('SESSION_LOST');
    this.#held = session;
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
    if (older?.queue === spec.queue && older.session.id === session.id) {
      older.change(spec);
      return;
    }
    if (older) this.#pool.remove(older);
    const worker = new PushWorker(spec, session, this.#ties);
    this.#workers.set(spec.worker, worker);
    this.#pool.add(worker);
  }

  setCredit(name: string, credit: number): boolean {
    const worker = this.#workers.get(name);
    if (!worker) return false;
    worker.change({ credit, kinds: worker.kinds, leaseMs: worker.leaseMs });
    return true;
  }

  claim(want: ClaimWant): Promise<ClaimedTask[]> {
    const session = this.#live();
    if (this.#claims.size >= claimsMax) throw new Refusal('LIMIT', `at most ${claimsMax} claims wait on a connection`);
    return new Promise((resolve, reject) => {
      const call: ClaimCall = new ClaimCall(want, session, this.#ties, (tasks, error) => {
        this.#claims.delete(call);
        if (error === undefined) resolve(tasks);
        else reject(error);
      });
      this.#claims.add(call);
      this.#pool.add(call);
    });
  }

  blocked(is: boolean): void {
    this.#ties.blocked = is;
    // Whoever was meant by news meanwhile is not dry any more and asks now; the others stay asleep.
    if (!is) for (const taker of [...this.#workers.values(), ...this.#claims]) this.#pool.changed(taker);
  }

  giveBack(tasks: readonly HeldTask[]): void {
    if (this.#held) void this.#pool.giveBack(tasks, { session: this.#held, owner: this });
  }

  dispose(): void {
    this.gone = true;
    for (const worker of this.#workers.values()) this.#pool.remove(worker);
    for (const call of [...this.#claims]) call.abandon();
    this.#workers.clear();
    if (this.#held) this.#pool.forgetOwner(this.#held.id, this);
  }
}
