import { z } from 'zod';

/**
 * What every event of a grant carries: one event for each of its locks. If there are several, `locks` names them: all of
 * them in the event of the first one, in each of the others at most eight, and `locksMore` how many there are beside those.
 */
const attributes = {
  lock: z.string(),
  locks: z.array(z.string()).optional(),
  locksMore: z.int().optional(),
  grant: z.string(),
  session: z.string(),
  agent: z.string(),
  owner: z.string().optional(),
};
const asked = { mode: z.enum(['exclusive', 'shared']).optional(), permits: z.int().optional() };

export const lockEvents = {
  'lock.defined': z.object({
    lock: z.string(),
    capacity: z.int().optional(),
    lockDelayMs: z.int(),
    maxHoldMs: z.int().optional(),
  }),
  'lock.waiting': z.object({
    ...attributes,
    ...asked,
    place: z.int(),
    /** The wait ends then. */
    endsAt: z.string(),
    reason: z.string().optional(),
  }),
  'lock.granted': z.object({
    ...attributes,
    ...asked,
    fence: z.int(),
    validMs: z.int(),
    maxHoldMs: z.int().optional(),
    reason: z.string().optional(),
    /** The hold ends then unless its lease is renewed. */
    endsAt: z.string().optional(),
    /** Absent if it was granted at once. */
    waitedMs: z.int().optional(),
    /** The fence it had before the store was lost. */
    reclaimed: z.int().optional(),
  }),
  'lock.waitEnded': z.object({ ...attributes, reason: z.enum(['timeout', 'cancelled', 'sessionLost', 'neverFits']) }),
  /** `closed`: the session was closed by its client. */
  'lock.released': z.object({ ...attributes, fence: z.int(), reason: z.enum(['released', 'closed']) }),
  'lock.lost': z.object({
    ...attributes,
    fence: z.int(),
    reason: z.enum(['sessionLost', 'disconnected', 'leaseLapsed', 'maxHold', 'broken', 'revoked']),
    /** What an operator said. */
    message: z.string().optional(),
    /** Granted to nobody before this. */
    notBeforeAt: z.string().optional(),
  }),
  /**
   * Somebody asked for what would close a circle (`cycle`: who waits for whose lock), with the word of another kind, or
   * to release a grant that is not his: nothing was changed. `lock` is the first one asked for, absent for an unknown grant.
   */
  'lock.refused': z.object({
    lock: z.string().optional(),
    grant: z.string(),
    session: z.string(),
    agent: z.string(),
    owner: z.string().optional(),
    code: z.enum(['DEADLOCK', 'KIND_MISMATCH', 'NOT_OWNER']),
    cycle: z
      .array(z.object({ session: z.string(), agent: z.string(), owner: z.string().optional(), lock: z.string() }))
      .optional(),
  }),
  /** An operator broke it; each holder's own `lock.lost` follows in the same step. */
  'lock.broken': z.object({
    lock: z.string(),
    session: z.string(),
    agent: z.string(),
    reason: z.string(),
    holders: z.int(),
  }),
};
