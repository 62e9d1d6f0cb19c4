import { z } from 'zod';

const level = z.int().min(0).max(3);

export const pressureEvents = {
  /** A queue came to another level of admission; `delayMs` is what it advised at that moment. */
  'pressure.changed': z.object({
    queue: z.string(),
    level,
    was: level,
    why: z.enum(['depth', 'rate', 'utilisation', 'age', 'lag', 'off']),
    depth: z.int(),
    delayMs: z.int().optional(),
  }),
};
