import { z } from 'zod';

/** What every event of a key carries; the holder and the fence are those it is about. */
const attributes = { key: z.string(), session: z.string(), agent: z.string(), fence: z.int(), attempts: z.int() };
const error = z.object({ message: z.string(), code: z.string().optional() }).optional();

export const onceEvents = {
  /** `unknown`: the one before ended without a word, and this holder is to find out what it did. */
  'once.began': z.object({ ...attributes, state: z.enum(['new', 'unknown']), leaseEndsAt: z.string() }),
  'once.finished': z.object(attributes),
  'once.failed': z.object({ ...attributes, outcome: z.enum(['final', 'retryable']), error }),
  /** `reported`: the holder itself does not know. `message`: what an operator said. */
  'once.unknown': z.object({
    ...attributes,
    reason: z.enum(['leaseLapsed', 'sessionLost', 'closed', 'revoked', 'reported']),
    error,
    message: z.string().optional(),
  }),
};
