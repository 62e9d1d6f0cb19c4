/** How a lock is asked for, and what its handler gets. */
export interface LockOptions {
  /** Of a read/write lock; exclusive if left out. */
  mode?: 'exclusive' | 'shared';
  /** Of a semaphore; 1 if left out. */
  permits?: number;
  /** How long to wait for it (60 s); 0 is refused with HELD where somebody has it. */
  waitMs?: number;
  /** A lease of its own, renewed while the handler runs; else the lock lives with the session. */
  leaseMs?: number;
  /** Taken away after this, however alive we are. */
  maxHoldMs?: number;
  /** Shown to whoever waits for it. */
  reason?: string;
  /** Whether a broken connection gives it back after the grace of the session, or only the end of the session. */
  onDisconnect?: 'hold' | 'release';
  /** Deadlocks are searched between owners. Calls nested in a handler share its owner by themselves. */
  owner?: string;
  /** Ends the waiting; a handler that runs is told by `lock.signal`. */
  signal?: AbortSignal;
}

/** A lock that is held. */
export interface Lock {
  readonly grant: string;
  /** Rises with every grant: what is guarded refuses a lower one. After a reclaim it is a new one. */
  readonly fence: number;
  /** Aborts with an `Ended` as reason when the lock is no longer surely ours. */
  readonly signal: AbortSignal;
}

export type LockHandler<R> = (lock: Lock) => Promise<R> | R;

/** One name, or several that are taken in one step. */
export type LockNames =
  | string
  | readonly (string | { name: string; mode?: 'exclusive' | 'shared'; permits?: number })[];

export interface LockCall {
  <R>(names: LockNames, handler: LockHandler<R>): Promise<R>;
  <R>(names: LockNames, options: LockOptions, handler: LockHandler<R>): Promise<R>;
}

export function paramsOf(names: LockNames, options: LockOptions & { owner: string }, grant: string, waitMs: number) {
  const { mode, permits, leaseMs, maxHoldMs, reason, onDisconnect, owner } = options;
  const rest = { grant, owner, waitMs, leaseMs, maxHoldMs, reason, onDisconnect };
  if (typeof names === 'string') return { name: names, mode, permits, ...rest } as Record<string, unknown>;
  const locks = names.map((each) => ({ mode, permits, ...(typeof each === 'string' ? { name: each } : each) }));
  return { locks, ...rest } as Record<string, unknown>;
}
