/** How both sides work: the same numbers for both, wherever they have a meaning on both. */
export interface Load {
  readonly tasks: number;
  /** Tasks in flight: calls that wait for their answer, times the tasks of a call. */
  readonly inFlight: number;
  readonly batch: number;
  /** A payload of this many bytes as JSON. */
  readonly payloadBytes: number;
}

export interface Setup {
  readonly redisPath: string;
  /** Where the daemon listens; the other side has none. */
  readonly url?: string;
}

/** One of the two that are compared, as its driver process runs it. Rates are answered in seconds for `load.tasks`. */
export interface Side {
  open(setup: Setup): Promise<void>;
  /** From here on another queue is used: rounds do not see what others left. */
  queue(name: string): Promise<void>;
  enqueue(load: Load): Promise<number>;
  enqueueBatched(load: Load): Promise<number>;
  /** Puts `tasks` there as fast as it can; not measured. */
  fill(load: Load): Promise<void>;
  /** Takes and finishes `tasks` that wait. */
  work(load: Load): Promise<number>;
  workBatched(load: Load): Promise<number>;
  /** Enqueue to handler in an otherwise idle system, in milliseconds, one after the other. */
  latency(samples: number, load: Load): Promise<number[]>;
  close(): Promise<void>;
}

/** An object whose JSON has `bytes` bytes. */
export function payload(bytes: number): { text: string } {
  return { text: 'x'.repeat(Math.max(0, bytes - '{"text":""}'.length)) };
}

/** What a message to a driver asks for, and what it answers. */
export interface Ask {
  readonly id: number;
  readonly verb: keyof Side | 'cpu';
  readonly args: readonly unknown[];
}
export interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}
