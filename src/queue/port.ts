/** A worker as its connection declared it. */
export interface WorkerSpec {
  readonly worker: string;
  readonly queue: string;
  readonly credit: number;
  readonly kinds: readonly string[] | undefined;
  readonly leaseMs: number | undefined;
  /** Tasks the worker holds already, by a resume: they count against its credit. */
  readonly holds: readonly HeldTask[];
}

export interface HeldTask {
  readonly task: string;
  readonly fence: number;
}

/** What became of a `tasks` line: the four outcomes decide refund or charge (ARCHITECTURE.md, ownership table). */
export type Fate =
  /** The pong to the numbered ping just ahead of the line came back. */
  | 'received'
  /** The line never reached the socket. */
  | 'unwritten'
  /** The socket is open but no pong came within receiptMs. */
  | 'silent'
  /** The socket closed after the line was written and before its pong. */
  | 'closed';

/** Where task lines leave: implemented by the gateway's connection. */
export interface TaskSink {
  /** Writes a numbered ping and `line` in one flush, ahead of feed lines, and tells the line's fate exactly once. */
  deliver(line: string, settled: (fate: Fate) => void): void;
}

/** What queue.work, queue.credit and queue.claim ask of their connection. */
export interface WorkersPort {
  /** Declares a worker, or declares it again after a resume. */
  declare(spec: WorkerSpec): void;
  /** False if this connection has no such worker. */
  setCredit(worker: string, credit: number): boolean;
  /** Up to `count` tasks for this call alone, waiting up to waitMs for the first; ends early when the socket goes. */
  claim(want: {
    queue: string;
    kinds: readonly string[] | undefined;
    leaseMs: number | undefined;
    count: number;
    waitMs: number;
  }): Promise<ClaimedTask[]>;
  /** What such a call was given and its client has never seen. */
  giveBack(tasks: readonly HeldTask[]): void;
}

/** A task as a script handed it out: the line is the JSON object that stands in `tasks`. */
export interface ClaimedTask {
  readonly task: string;
  readonly fence: number;
  readonly line: string;
}

/**
 * Rows of claims.serve in redis/lua/claim.lua: want, task, fence, line in one list; `-want` and blanks for a session
 * that does not speak here any more; `0` and blanks if the script stopped at its bound while there was more to give.
 */
export type ClaimRows = readonly (number | string)[];

/** What idle workers want, as script arguments; must be settled with the script's rows, or failed with its error. */
export interface Asked {
  readonly args: readonly (string | number)[];
  settle(rows: ClaimRows): void;
  fail(error: unknown): void;
}

/** New tasks that a script is about to put into a queue. */
export interface Fresh {
  tasks: number;
  readonly kinds: Set<string>;
}

/** The idle workers of one namespace on this daemon: implemented by gateway/workers.ts. */
export interface Dispatcher {
  /**
   * `most`: no more tasks than that, as another script follows that asks for the rest. `fresh`, by queue: what this very
   * script brings; idle workers are asked for although they found nothing before.
   */
  ask(most?: number, fresh?: ReadonlyMap<string, Fresh>): Asked;
  /**
   * The holder says it is done with a task: its credit is free now. The answer undoes that, if the task stays with its
   * holder, or if nobody knows whether it does.
   */
  finished(session: string, task: string, fence: number): (is: 'held' | 'unknown') => void;
}
