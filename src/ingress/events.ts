import { z } from 'zod';

/** What became of messages of services that are no events, and of what may have been missed (ingress/append.lua). */
export const ingressEvents = {
  'ingress.rejected': z.object({
    channel: z.string(),
    reason: z.string(),
    bytes: z.int(),
    /** So many more were rejected since the last one that was told. */
    more: z.int().optional(),
  }),
  'ingress.gap': z.object({ via: z.literal('pubsub'), since: z.string(), until: z.string(), lost: z.int().optional() }),
};
