import { z } from 'zod';

/** A reservation that is granted at once and its settle tell nothing of their own: `limit.gauge` stands for them. */
const reservation = { limit: z.string(), reservation: z.string(), session: z.string(), agent: z.string() };

export const limitEvents = {
  'limit.defined': z.object({ limit: z.string(), definition: z.record(z.string(), z.unknown()) }),
  'limit.waiting': z.object({
    ...reservation,
    place: z.int(),
    /** The wait ends then. */
    endsAt: z.string(),
    /** The first of the queue fits then, if nothing else comes. */
    resumesAt: z.string().optional(),
  }),
  'limit.granted': z.object({
    ...reservation,
    fence: z.int(),
    validMs: z.int(),
    /** Absent if the reply to its ask said so: no push tells it again. */
    waitedMs: z.int().optional(),
  }),
  'limit.waitEnded': z.object({
    ...reservation,
    reason: z.enum(['timeout', 'cancelled', 'sessionLost', 'neverFits']),
  }),
  /** It counts as spent, its concurrency is free. */
  'limit.lost': z.object({
    ...reservation,
    fence: z.int(),
    reason: z.enum(['sessionLost', 'closed', 'disconnected', 'leaseLapsed', 'revoked']),
    cost: z.record(z.string(), z.int()),
  }),
  /** An ask did not fit. */
  'limit.saturated': z.object({ limit: z.string(), dimension: z.string().optional() }),
  /** `capacity`: a fifth of everything is there again and nobody waits; `probe`: the one that tried has come through. */
  'limit.recovered': z.object({ limit: z.string(), reason: z.enum(['capacity', 'probe']) }),
  /** Nothing is granted before `untilAt`, and then to one alone. */
  'limit.penalized': z.object({
    limit: z.string(),
    session: z.string(),
    agent: z.string(),
    untilAt: z.string(),
    code: z.string().optional(),
  }),
  'limit.gauge': z.object({
    limit: z.string(),
    dimensions: z.record(z.string(), z.object({ amount: z.int(), used: z.int(), reserved: z.int() })),
    waiting: z.int(),
  }),
};
