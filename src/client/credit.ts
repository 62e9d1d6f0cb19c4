import { Refusal } from '../errors.js';
import { Backoff } from './backoff.js';
import { Closed } from './errors.js';
import type { Done } from './requests.js';

export interface CreditPorts {
  /** What the daemon should know now. */
  wanted(): number;
  isOnline(): boolean;
  declare(credit: number, done: Done): void;
  change(credit: number, done: Done): void;
  /** It was refused, and nobody waits to hear it. */
  onError(error: Error): void;
}

interface Waiter {
  resolve(): void;
  reject(error: Error): void;
}

const againMs = 200;
const againMaxMs = 5000;

/**
 * What the daemon is told of a worker: one request at a time (it looks up what a worker holds before it knows it, so a
 * change sent behind would overtake), and again until it is answered: nothing else would tell it before the next
 * connection, and the worker would stand idle beside its tasks.
 */
export class Credit {
  private readonly ports: CreditPorts;
  private readonly backoff = new Backoff(againMs, againMaxMs);
  private waiters: Waiter[] = [];
  /** What this connection's daemon has answered; undefined: it has to be declared. */
  private known: number | undefined;
  /** It was declared on this connection, answered or not. */
  private mayBeKnown = false;
  private asking: object | undefined;
  private timer: NodeJS.Timeout | undefined;
  private ended: Closed | undefined;

  constructor(ports: CreditPorts) {
    this.ports = ports;
  }

  /** Resolves when the daemon knows what is wanted, rejects if it refuses it. Nobody has to listen. */
  tell(): Promise<void> {
    const told = new Promise<void>((resolve, reject) => this.waiters.push({ resolve, reject }));
    told.catch(() => {});
    this.ask();
    return told;
  }

  /** A new connection, or a new session: the daemon has to be told again. */
  renew(): void {
    this.known = undefined;
    this.mayBeKnown = false;
    this.asking = undefined;
    this.backoff.reset();
    this.ask();
  }

  /** The connection is over, for good. */
  end(closed: Closed): void {
    this.ended = closed;
    clearTimeout(this.timer);
    this.refused(closed);
  }

  ask(): void {
    if (this.ended) {
      this.refused(this.ended);
      return;
    }
    const credit = this.ports.wanted();
    // Without a credit there is no need to be known at all; offline, `renew` comes later.
    if (!this.ports.isOnline()) {
      if (credit === 0) this.told();
      return;
    }
    if (this.asking) return;
    clearTimeout(this.timer);
    if (credit === this.known || (credit === 0 && !this.mayBeKnown)) {
      this.told();
      return;
    }
    const asking = {};
    this.asking = asking;
    const done: Done = (error) => {
      if (this.asking === asking) this.answered(credit, error);
    };
    const isNew = this.known === undefined;
    this.mayBeKnown = true;
    if (isNew) this.ports.declare(credit, done);
    else this.ports.change(credit, done);
  }

  private answered(credit: number, error: Error | undefined): void {
    // After a cut the next connection declares it.
    if (error && !this.ports.isOnline()) return;
    this.asking = undefined;
    if (!error) {
      this.known = credit;
      this.backoff.reset();
      this.ask();
      return;
    }
    // Declaring it twice is declaring it once.
    this.known = undefined;
    if (error instanceof Refusal && mayPass(error)) {
      this.timer = setTimeout(() => this.ask(), Math.max(error.afterMs ?? 0, this.backoff.next()));
      this.timer.unref();
      return;
    }
    this.mayBeKnown = false;
    this.refused(error);
  }

  private told(): void {
    for (const waiter of this.waiters.splice(0)) waiter.resolve();
  }

  private refused(error: Error): void {
    const waiters = this.waiters.splice(0);
    if (waiters.length === 0 && !(error instanceof Closed)) this.ports.onError(error);
    for (const waiter of waiters) waiter.reject(error);
  }
}

/** A lost session is replaced under the open socket. */
const mayPass = ({ retry, code }: Refusal): boolean => retry || code === 'SESSION_LOST';
