import { z } from 'zod';

const holder = { session: z.string(), agent: z.string() };

/** What happens to sessions, and what operators do to holdings. */
export const sessionEvents = {
  'session.opened': z.object({ ...holder, tenant: z.string(), labels: z.record(z.string(), z.string()).optional() }),
  'session.resumed': z.object({ ...holder, binding: z.int() }),
  'session.closed': z.object({ ...holder, reason: z.literal('closed') }),
  'session.lost': z.object({ ...holder, reason: z.enum(['expired', 'revoked']) }),
  /** `reason` is the operator's sentence; the holding's own event follows in the same step. */
  'lease.revoked': z.object({
    lease: z.string(),
    task: z.string().optional(),
    lock: z.string().optional(),
    limit: z.string().optional(),
    ...holder,
    fence: z.int(),
    reason: z.string(),
  }),
};
