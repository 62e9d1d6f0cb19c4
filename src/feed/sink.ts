/**
 * Where the lines of one tail leave: the feed lane of a connection's outbox, implemented by the gateway.
 *
 * Within one flush, replies and pushes go ahead of feed lines, so a tail may begin to write in the turn in which
 * feed.subscribe answers and its reply still comes first. The order inside the feed lane is the order of the calls:
 * a `gap` or a `position` given to `push` stands between the chunks around it.
 */
export interface FeedSink {
  /**
   * Number of the inbound message whose line is being started. A command that wants to know which message it came in
   * reads it before its first await; two reads are equal if both lines came in one message.
   */
  readonly message: number;
  /** Bytes that may be written now. Zero or less: wait for `onDrain`. What the kernel has not taken yet counts. */
  room(): number;
  /**
   * One WebSocket message of 1 to 64 lines joined by `\n` (none at the end), at most lineBytes in all. The bytes are
   * shared, not copied: the same chunk may go to any number of sinks and must not be changed afterwards. Written even
   * when there is no room, so a chunk larger than the room goes out when the writer decides so.
   */
  write(chunk: Buffer, lines: number): void;
  /** One line in place, in the feed lane: gap, position. */
  push(line: string): void;
  /** Calls `wake` once, as soon as there is room again (in a later turn if there is room now). The last call counts. */
  onDrain(wake: () => void): void;
  /**
   * What was written so far goes out ahead of everything that follows, replies included. feed.unsubscribe calls it, so
   * that no line of the subscription comes after its reply.
   */
  seal(): void;
}
