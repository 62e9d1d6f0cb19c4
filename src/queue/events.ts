import { z } from 'zod';

/** Attributes that every task event carries; `where` of a subscription may name them. */
const attributes = { queue: z.string(), task: z.string(), tenant: z.string(), kind: z.string().optional() };
const holder = { session: z.string(), agent: z.string() };
const attempt = { attempt: z.int(), fence: z.int() };
const heldBefore = { session: z.string().optional(), agent: z.string().optional(), ...attempt };
/** Why an attempt or a task ended; the same words stand in `revoked` and in history. */
export const Outcome = z.enum([
  'failed',
  'timedOut',
  'sessionLost',
  'leaseLapsed',
  'revoked',
  'released',
  'undelivered',
  'drained',
  'completed',
  'cancelled',
  'deadline',
]);
const fault = { error: z.unknown().optional() };

export const taskEvents = {
  'task.enqueued': z.object({
    ...attributes,
    priority: z.int(),
    state: z.enum(['ready', 'scheduled', 'blocked']),
    runAt: z.string().optional(),
  }),
  'task.ready': z.object(attributes),
  'task.claimed': z.object({ ...attributes, ...holder, worker: z.string().optional(), ...attempt }),
  'task.progressed': z.object({ ...attributes, ...holder, ...attempt, progress: z.unknown().optional() }),
  'task.released': z.object({
    ...attributes,
    ...heldBefore,
    ...fault,
    state: z.string(),
    nextAt: z.string().optional(),
    reason: Outcome,
    charged: z.boolean().optional(),
  }),
  'task.retried': z.object({
    ...attributes,
    ...heldBefore,
    ...fault,
    state: z.string(),
    nextAt: z.string().optional(),
    reason: Outcome,
  }),
  'task.cancelRequested': z.object({
    ...attributes,
    ...holder,
    fence: z.int(),
    graceMs: z.int(),
    reason: z.enum(['cancelled', 'deadline']),
    message: z.string().optional(),
  }),
  'task.completed': z.object({ ...attributes, ...holder, ...attempt, reason: z.literal('completed') }),
  'task.dead': z.object({ ...attributes, ...heldBefore, ...fault, reason: Outcome }),
  'task.cancelled': z.object({
    ...attributes,
    session: z.string().optional(),
    agent: z.string().optional(),
    attempt: z.int().optional(),
    fence: z.int().optional(),
    ...fault,
    message: z.string().optional(),
    reason: Outcome,
  }),
  'task.expired': z.object({
    ...attributes,
    session: z.string().optional(),
    agent: z.string().optional(),
    attempt: z.int().optional(),
    fence: z.int().optional(),
    ...fault,
    reason: Outcome,
  }),
  'task.updated': z.object({
    ...attributes,
    priority: z.int().optional(),
    startByAt: z.string().optional(),
    deadlineAt: z.string().optional(),
    runAt: z.string().optional(),
    state: z.string(),
  }),
  'task.redriven': z.object({ ...attributes, state: z.literal('ready'), from: z.enum(['dead', 'expired']) }),
  'task.removed': z.object({ ...attributes, state: z.string(), reason: z.enum(['retention', 'overflow', 'purged']) }),
  'queue.configured': z.object({ queue: z.string() }),
  'queue.paused': z.object({ queue: z.string(), until: z.string().optional() }),
  'queue.unpaused': z.object({ queue: z.string() }),
  'queue.purged': z.object({ queue: z.string(), count: z.int() }),
};
