import { z } from 'zod';
import { Instant, Json, Kind, Ms, MsOrZero, Name, Priority, Queue, TaskId, Tenant } from '../protocol/primitives.js';

/**
 * A task's states and the ways between them:
 *
 *              enqueue                 claim                complete
 *     ───────────┬──────────▶ ready ──────────▶ active ───────────────▶ completed
 *                │  due  ▲     │  ▲              │ │
 *                ▼       │     │  └── release ───┘ ├── fail, no attempt left ──▶ dead
 *             scheduled ─┘     │                   ├── deadline, after grace ──▶ expired
 *                ▲             │                   └── cancel, after grace ────▶ cancelled
 *                └── fail: retried after back-off
 *     waiting: startBy or deadline over ▶ expired; cancel ▶ cancelled.  dead, expired ── redrive ▶ ready
 *
 * `blocked` (waits for a need, a key, a quota or a dependency) stands between enqueue and ready.
 */
export const states = ['scheduled', 'ready', 'blocked', 'active', 'completed', 'dead', 'cancelled', 'expired'] as const;
export const State = z.enum(states);
export type State = z.infer<typeof State>;
export const terminal: ReadonlySet<string> = new Set(['completed', 'dead', 'cancelled', 'expired']);

export const Backoff = z.strictObject({
  kind: z.literal('exponential').default('exponential'),
  baseMs: Ms.default(1000),
  capMs: Ms.default(60_000),
  jitter: z.literal('full').default('full'),
});
export type Backoff = z.output<typeof Backoff>;
export const backoffText = (backoff: Backoff): string => `exponential,${backoff.baseMs},${backoff.capMs},full`;
export function parseBackoff(text: string): Backoff {
  const [, baseMs, capMs] = text.split(',');
  return { kind: 'exponential', baseMs: Number(baseMs), capMs: Number(capMs), jitter: 'full' };
}

export const MaxAttempts = z.int().min(1).max(100);
export const Key = Name;
const Traceparent = z.string().regex(/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/);

/** One new task of queue.enqueue, and of the `enqueue` part of queue.complete (where `task` must be named). */
export const NewTask = z.strictObject({
  payload: Json,
  task: TaskId.optional(),
  key: Key.optional(),
  priority: Priority.default(50),
  tenant: Tenant.optional(),
  kind: Kind.optional(),
  delayMs: MsOrZero.optional(),
  runAt: Instant.optional(),
  startByMs: Ms.optional(),
  deadlineMs: Ms.optional(),
  timeoutMs: Ms.optional(),
  leaseMs: Ms.optional(),
  maxAttempts: MaxAttempts.optional(),
  backoff: Backoff.optional(),
  metadata: Json.optional(),
  traceparent: Traceparent.optional(),
});
export type NewTask = z.output<typeof NewTask>;

/** A failed item of a batch answers this in its place. */
export const ItemError = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    retry: z.boolean(),
    path: z.string().optional(),
    afterMs: z.number().optional(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
});

export const Pressure = z.object({ level: z.int().min(0).max(3), delayMs: z.int().optional() });

const HolderOf = z.object({ session: z.string(), agent: z.string() });

export const HistoryRow = z.object({
  attempt: z.int(),
  fence: z.int(),
  holder: HolderOf,
  startedAt: z.string(),
  endedAt: z.string(),
  outcome: z.string(),
  error: z.unknown().optional(),
});

/** A task as queue.get shows it. `on` names what a blocked one waits for. */
export const Task = z.object({
  task: z.string(),
  queue: z.string(),
  state: State,
  kind: z.string().optional(),
  tenant: z.string(),
  priority: z.int(),
  payload: z.unknown().optional(),
  metadata: z.unknown().optional(),
  key: z.string().optional(),
  attempt: z.int(),
  maxAttempts: z.int(),
  refunds: z.int(),
  fence: z.int().optional(),
  holder: HolderOf.optional(),
  worker: z.string().optional(),
  progress: z.unknown().optional(),
  saved: z.unknown().optional(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
  history: z.array(HistoryRow).optional(),
  enqueuedAt: z.string(),
  runAt: z.string().optional(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  deadlineAt: z.string().optional(),
  on: z.unknown().optional(),
  traceparent: z.string().optional(),
});

/** A task as a worker gets it. */
export const WorkTask = z.object({
  task: TaskId,
  queue: Queue,
  kind: z.string().optional(),
  payload: z.unknown(),
  attempt: z.int(),
  maxAttempts: z.int(),
  fence: z.int(),
  leaseMs: z.int().optional(),
  timeoutMs: z.int().optional(),
  deadlineAt: z.string().optional(),
  saved: z.unknown().optional(),
  metadata: z.unknown().optional(),
  traceparent: z.string().optional(),
});
export type WorkTask = z.infer<typeof WorkTask>;
