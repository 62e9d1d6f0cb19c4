import { z } from 'zod';

const holder = { session: z.string(), agent: z.string() };

export const sessionEvents = {
  'session.opened': z.object({ ...holder, tenant: z.string(), labels: z.record(z.string(), z.string()).optional() }),
  'session.resumed': z.object({ ...holder, binding: z.int() }),
  'session.closed': z.object({ ...holder, reason: z.literal('closed') }),
  'session.lost': z.object({ ...holder, reason: z.enum(['expired', 'revoked']) }),
  'lease.revoked': z.object({
    task: z.string(),
    session: z.string(),
    agent: z.string(),
    fence: z.int(),
    reason: z.string(),
  }),
};
