import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import type { Config } from '../config.js';
import type { Context, SessionRef } from '../context.js';
import type { Connection } from './connection.js';
import type { Flusher } from './flusher.js';
import type { Pipeline } from './pipeline.js';
import type { Registry } from './registry.js';
import type { FeedSink, FeedTail, Workers, WorkersSink } from './sinks.js';
import type { TokenCheck } from './token.js';
import type { Wheel } from './wheel.js';

/**
 * How a connection ended. `clean`: the client sent a close frame with 1000, 1001 or no code; `drained`, `replaced` and
 * `stalled` were our doing; all else is `broken` (cut, silent, misuse), and the grace of its session begins.
 */
export type Ending = 'clean' | 'broken' | 'drained' | 'replaced' | 'stalled';

/** The part of a command's context that belongs to a namespace and not to a connection. */
export type NamespaceParts = Omit<Context, 'config' | 'connection' | 'session'>;

/** What the gateway asks of the rest of the daemon. */
export interface GatewayHooks {
  /** A message, ping or pong came in. Called for every one: must be cheap. */
  heard(connection: Connection): void;
  /** A session was opened or resumed on the connection. */
  attached(connection: Connection): void;
  /** The session has left the connection (closed by its client, or lost); the socket stays. */
  detached(connection: Connection, session: SessionRef): void;
  /** The socket is gone, its workers and its tail were let go, all fates are told. Called once. */
  closed(connection: Connection, how: Ending): void;
  redisUp(): boolean;
  feedPort(connection: Connection, sink: FeedSink): FeedTail;
  workersPort(connection: Connection, sink: WorkersSink): Workers;
  /**
   * Called until it answers a served namespace, once more for each connection; a Refusal is the answer to the request.
   * `opens`: session.open and feed.subscribe bring a namespace into being, reads do not.
   */
  namespace(name: string, opens: boolean): Promise<NamespaceParts>;
}

/** A socket that has passed the handshake. */
export interface Arrival {
  readonly ws: WebSocket;
  readonly socket: Socket;
  readonly address: string;
  readonly authenticated: boolean;
}

/** What the connections of one gateway share. */
export interface Shared {
  readonly config: Config;
  readonly hooks: GatewayHooks;
  readonly pipeline: Pipeline;
  readonly registry: Registry;
  readonly wheel: Wheel;
  readonly flusher: Flusher;
  readonly token: TokenCheck;
  /** The first line of every connection. */
  readonly hello: string;
}
