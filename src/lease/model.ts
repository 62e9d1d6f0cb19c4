import { z } from 'zod';
import { Refusal } from '../errors.js';
import { Name } from '../protocol/primitives.js';

/** Kinds of lease; a lease id is `<kind>:<id>`. */
export const kinds = ['session', 'task', 'lock', 'reservation', 'once'] as const;
export const LeaseKind = z.enum(kinds);
export type LeaseKind = z.infer<typeof LeaseKind>;

export const LeaseId = z
  .string()
  .max(220)
  .refine(
    (text) => {
      const { kind, id } = splitLease(text);
      return (kinds as readonly string[]).includes(kind) && Name.safeParse(id).success;
    },
    `expected <kind>:<id>, kind one of ${kinds.join(', ')}`,
  );

export function splitLease(lease: string): { kind: LeaseKind; id: string } {
  const colon = lease.indexOf(':');
  return { kind: lease.slice(0, Math.max(colon, 0)) as LeaseKind, id: lease.slice(colon + 1) };
}

/** What a session holds, in the reply of session.open. */
export const Holding = z.object({
  lease: z.string(),
  kind: z.string(),
  /** A task's id, the first lock of a grant, the limit of a reservation. */
  name: z.string(),
  /** All locks of a grant that has several. */
  locks: z.array(z.string()).optional(),
  state: z.enum(['held', 'waiting']),
  fence: z.int().optional(),
  queue: z.string().optional(),
  endsAt: z.string().optional(),
});

/** kind, id, fence, queue, sinceAt, endsAt, of locks and reservations also state and names: rows of redis/lua/holdings.lua. */
export type HoldingRow = [string, string, string, string, string, string, ('held' | 'waiting')?, string[]?];

export const instant = (ms: string | number): string => new Date(Number(ms)).toISOString();

export function holdingOf(row: HoldingRow): z.infer<typeof Holding> {
  const [kind, id, fence, queue, , endsAt, state = 'held'] = row;
  return {
    lease: `${kind}:${id}`,
    kind,
    ...namesOf(row),
    state,
    ...(fence === '' ? {} : { fence: Number(fence) }),
    ...(queue === '' ? {} : { queue }),
    ...(endsAt === '' ? {} : { endsAt: instant(endsAt) }),
  };
}

export function namesOf([, id, , , , , , locks]: HoldingRow): { name: string; locks?: string[] } {
  return { name: locks?.[0] ?? id, ...(locks && locks.length > 1 ? { locks } : {}) };
}

export const noSuchLease = (lease: string): Refusal => new Refusal('NOT_FOUND', `nobody holds ${lease}`);
