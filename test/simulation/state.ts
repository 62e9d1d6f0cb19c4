import type { Any, Call } from './calls.js';

export type TaskState = 'scheduled' | 'ready' | 'active' | 'completed' | 'dead' | 'cancelled' | 'expired' | 'removed';
export const terminalStates: readonly TaskState[] = ['completed', 'dead', 'cancelled', 'expired'];

/** What was asked for under a task's id. Several until a reading tells which one was stored. */
export interface Candidate {
  readonly spec: Any;
  readonly queue: string;
  readonly call: Call;
}

/** How a task stood from one event to the next. */
export interface Moment {
  readonly offset: number;
  readonly at: number;
  readonly state: TaskState;
  readonly fence: number;
  readonly session: string;
}

export interface ModelTask {
  readonly id: string;
  readonly queue: string;
  readonly tenant: string;
  readonly kind: string;
  readonly key: string;
  readonly enqueuedAt: number;
  readonly maxAttempts: number;
  readonly timeoutMs: number | undefined;
  readonly ownLeaseMs: number | undefined;
  /** What may be stored; narrowed by what readers saw. */
  candidates: readonly Candidate[];
  state: TaskState;
  priority: number;
  /** Place in the queue; given when it first is ready, kept through everything but a redrive. */
  seq: number | undefined;
  attempt: number;
  refunds: number;
  fence: number;
  session: string;
  worker: string;
  leaseMs: number | undefined;
  claimedAt: number;
  renewedAt: number;
  claimedEver: boolean;
  dueAt: number;
  startBy: number | undefined;
  deadline: number | undefined;
  ending: { readonly reason: 'cancelled' | 'deadline'; readonly endsAt: number } | undefined;
  endedAt: number;
  /** Ends of attempts, for repeated requests: outcome by fence. */
  readonly outcomes: Map<number, { readonly outcome: string; readonly state: string; readonly session: string }>;
}

export interface ModelSession {
  readonly id: string;
  readonly agent: string;
  /** When it was opened or last resumed: the grace of a broken socket begins later. */
  boundAt: number;
  binding: number;
  endedAt: number | undefined;
  reason: string;
}

export interface ModelQueue {
  readonly name: string;
  seq: number;
  paused: boolean;
  pausedUntil: number | undefined;
  /** Virtual time of the last start, and of each tenant. */
  vtime: number;
  readonly tenants: Map<string, number>;
  readonly ready: Set<ModelTask>;
  /** key → task. */
  readonly keys: Map<string, ModelTask>;
}

export const newQueue = (name: string): ModelQueue => ({
  name,
  seq: 0,
  paused: false,
  pausedUntil: undefined,
  vtime: 0,
  tenants: new Map(),
  ready: new Set(),
  keys: new Map(),
});

/** Strictly by priority, then by place. */
export function before(a: ModelTask, b: ModelTask): boolean {
  return a.priority !== b.priority ? a.priority > b.priority : (a.seq ?? 0) < (b.seq ?? 0);
}
