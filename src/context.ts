import type { Producers } from './backpressure/producers.js';
import type { Config } from './config.js';
import type { FeedPort } from './feed/port.js';
import type { SessionKeeper } from './lease/keeper.js';
import type { LimitJoins } from './limit/joins.js';
import type { LockJoins } from './lock/joins.js';
import type { Finishes } from './queue/finishes.js';
import type { QueueJoins } from './queue/joins.js';
import type { WorkersPort } from './queue/port.js';
import type { Namespace } from './redis/namespace.js';

/** An agent's identity on one socket. `binding` rises with every open and resume; scripts ignore an older one. */
export interface SessionRef {
  readonly id: string;
  readonly agent: string;
  readonly tenant: string;
  readonly binding: number;
  readonly ttlMs: number;
  readonly graceMs: number;
}

/** How near Redis is to its memory limit: implemented by backpressure/memory.ts. */
export interface MemoryPort {
  readonly short: boolean;
  /** So many bytes of what is new are on their way. */
  puts(bytes: number): void;
}

/** What a command may ask of the connection that called it. Implemented by gateway/connection.ts. */
export interface ConnectionPort {
  /** Unique in this daemon. */
  readonly id: number;
  readonly session: SessionRef | undefined;
  /** The session was opened or resumed here: frames renew it from now on. */
  attach(session: SessionRef): void;
  /** The session was closed by the client: the socket stays and is without a session. */
  detach(): void;
  /** True if the token is right, or none is asked for. A true answer holds for the connection. */
  authenticate(token: string | undefined): boolean;
  /** Writes one line ahead of feed lines. */
  push(line: string): void;
  readonly feed: FeedPort;
  readonly workers: WorkersPort;
  /** Aborts when the socket is gone: replies that wait (queue.claim, queue.result) end with it. */
  readonly gone: AbortSignal;
}

/** What `run` gets. */
export interface Context {
  readonly namespace: Namespace;
  /** The queue commands of all connections of the namespace, joined. */
  readonly queues: QueueJoins;
  /** Acquires and releases of all connections of the namespace, joined. */
  readonly locks: LockJoins;
  /** Connections of the namespace that put tasks into queues with admission. */
  readonly producers: Producers;
  /** Reserves and settles of all connections of the namespace, joined. */
  readonly limits: LimitJoins;
  /** Ends of tasks as the log tells them, for replies that wait. */
  readonly finishes: Finishes;
  /** Sessions that are bound to this daemon's sockets. */
  readonly sessions: SessionKeeper;
  /** False for a namespace nobody has opened yet: it is empty, and only read. */
  readonly served: boolean;
  readonly config: Config;
  readonly connection: ConnectionPort;
  /** Present for every command whose `allowed` is `session`. */
  readonly session: SessionRef;
}
