import { Refusal } from '../errors.js';
import type { FeedPort } from '../feed/port.js';
import type { WorkersPort } from '../queue/port.js';
import type { Connection } from './connection.js';
import type { GatewayHooks } from './hooks.js';
import type { FeedSink, FeedTail, Workers } from './sinks.js';

/** What hangs on a connection and is made when it is first used: most connections need only some of it. */
export class Ports {
  readonly #connection: Connection;
  readonly #hooks: GatewayHooks;
  #tail: FeedTail | undefined;
  #workers: Workers | undefined;
  #gone: AbortController | undefined;
  #leaving = false;
  #ended = false;

  constructor(connection: Connection, hooks: GatewayHooks) {
    this.#connection = connection;
    this.#hooks = hooks;
  }

  get tail(): FeedTail | undefined {
    return this.#tail;
  }

  feed(sink: () => FeedSink): FeedPort {
    this.#refuseLate();
    this.#tail ??= this.#hooks.feedPort(this.#connection, sink());
    return this.#tail;
  }

  get workers(): WorkersPort {
    this.#refuseLate();
    this.#workers ??= this.#hooks.workersPort(this.#connection, this.#connection);
    return this.#workers;
  }

  get gone(): AbortSignal {
    this.#gone ??= new AbortController();
    if (this.#ended) this.#gone.abort();
    return this.#gone.signal;
  }

  /** The socket takes no more for now; or, `false`, it took everything. */
  blocked(is: boolean): void {
    this.#workers?.blocked(is);
  }

  /** Workers belong to the session on this connection; the tail belongs to the connection and stays. */
  endWorkers(): void {
    this.#workers?.dispose();
    this.#workers = undefined;
  }

  /** Nothing is written any more: a worker that stayed would take tasks and hand them back until they are dead. */
  leave(): void {
    this.#leaving = true;
    this.endWorkers();
  }

  /** A command may come back from Redis after its socket went: there is nobody to work for, or to tell. */
  #refuseLate(): void {
    if (this.#leaving) throw new Refusal('SESSION_LOST', 'the connection has ended');
  }

  end(): void {
    this.#ended = true;
    this.leave();
    this.#tail?.dispose();
    this.#tail = undefined;
    this.#gone?.abort();
  }
}
