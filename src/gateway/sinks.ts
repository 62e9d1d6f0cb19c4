import type { FeedPort } from '../feed/port.js';
import type { FeedSink } from '../feed/sink.js';
import type { TaskSink, WorkersPort } from '../queue/port.js';

export type { FeedSink };

/** Where a connection's workers write. Fates come in the order of the writes; after the close nothing more is told. */
export interface WorkersSink extends TaskSink {
  /** Writes one line (revoked, cancel) ahead of feed lines, in the order of the calls, `deliver` included. */
  push(line: string): void;
  /**
   * Calls `heard` once, at the next pong of the socket. A worker whose push went silent gets nothing more before: the
   * ping that went out ahead of the lost line is still on its way, and its pong is this call.
   */
  onPong(heard: () => void): void;
}

/** The tail of one connection, made at the first use of `connection.feed`, let go when the socket is. */
export interface FeedTail extends FeedPort {
  dispose(): void;
}

/** The workers of one session on one connection, made at first use, let go with the socket or the session. */
export interface Workers extends WorkersPort {
  /** Lines wait for the socket; or, `false`, they go out at once. */
  blocked(is: boolean): void;
  dispose(): void;
}
