/** Who is measured: Signalbox, and for each subject the one that is known for it. */
export type Name = 'signalbox' | 'bullmq' | 'redlock' | 'rate-limiter-flexible' | 'ws';
export type Subject = 'queue' | 'lock' | 'limit' | 'feed';
export const rivals = {
  queue: 'bullmq',
  lock: 'redlock',
  limit: 'rate-limiter-flexible',
  feed: 'ws',
} as const satisfies Record<Subject, Name>;

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
  /** Both have one, but for the raw server. */
  readonly redisPath?: string;
  /** Where the daemon listens; the other side has none. */
  readonly url?: string;
}

interface Opened {
  open(setup: Setup): Promise<void>;
  close(): Promise<void>;
}

/** One of the two that are compared, as its process runs it. Rates are answered in seconds for `load.tasks`. */
export interface QueueSide extends Opened {
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
}

/** What only Signalbox has. */
export interface AdmittingQueueSide extends QueueSide {
  /** Switches admission on for the queue in use, with thresholds that nothing here reaches. */
  admit(): Promise<void>;
}

export interface LockSide extends Opened {
  /** Release to the next holder being told, in milliseconds, one after the other in an otherwise idle system. */
  handOff(samples: number): Promise<number[]>;
  /** Takes and gives back `count` free locks, `width` at once; seconds for all. */
  pairs(count: number, width: number): Promise<number>;
  /** Milliseconds a hand-off while `waiters` wait for one lock and give it back as soon as they have it. */
  crowd(waiters: number): Promise<number>;
}

/** What only Signalbox has. */
export interface FencedLockSide extends LockSide {
  /** Asking whether a fence is current, in milliseconds, one after the other. */
  check(samples: number): Promise<number[]>;
  /** Enqueue to handler as `QueueSide.latency`, in the process that measures hand-offs. */
  trip(samples: number, load: Load): Promise<number[]>;
}

export interface LimitSide extends Opened {
  /** Takes one of a limit that never is used up, `count` times, `width` at once; seconds for all. */
  take(count: number, width: number): Promise<number>;
}

/** What only Signalbox has. */
export interface SettledLimitSide extends LimitSide {
  /** Settles what the last `take` took: not measured, and it would else keep the daemon busy when it is another's turn. */
  giveBack(width: number): Promise<void>;
  /** The same, and each says at once what it really took. */
  takeAndSettle(count: number, width: number): Promise<number>;
}

/** Where subscribers connect, and the lines by which one subscribes and opens a session; a raw server needs none. */
export interface Address {
  readonly url: string;
  readonly subscribe?: string;
  readonly session?: string;
}

export interface Stream {
  readonly events: number;
  /** Events of a call; the next call follows when this one is done. */
  readonly burst: number;
  /** Bytes of an event's data. */
  readonly dataBytes: number;
  /** A call every so often, instead of as soon as possible. */
  readonly everyMs?: number;
}

export interface FeedSide extends Opened {
  address(): Promise<Address>;
  publish(stream: Stream): Promise<void>;
}

export type Side = AdmittingQueueSide & FencedLockSide & SettledLimitSide & FeedSide;

/** An object whose JSON has `bytes` bytes. */
export function payload(bytes: number): { text: string } {
  return { text: 'x'.repeat(Math.max(0, bytes - '{"text":""}'.length)) };
}

/** What a message to a driver asks for, and what it answers. */
export interface Ask {
  readonly id: number;
  readonly verb: string;
  readonly args: readonly unknown[];
}
export interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}
