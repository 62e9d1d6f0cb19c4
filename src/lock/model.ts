import { z } from 'zod';
import { present } from '../lib/assert.js';
import { Holder, Name } from '../protocol/primitives.js';
import { isPath, type Taken, takenOf } from './path.js';

/** The name of a lock: any name; behind `path:` a normal path, or a glob. */
export const LockName = Name.refine((name) => takenOf(name) !== undefined, {
  message: 'expected a path without empty, . and .. segments; a directory is path:<dir>/**',
});
export const Grant = Name;
const instant = (ms: string): string => new Date(Number(ms)).toISOString();
export const Mode = z.enum(['exclusive', 'shared']);
export const Permits = z.int().min(1).max(1_000_000_000);

export const taken = (name: string): Taken => present(takenOf(name), 'a name that the schema let pass');

/** A definition as lock.define answers it. */
export const Definition = z.object({
  name: z.string(),
  capacity: z.int().optional(),
  lockDelayMs: z.int(),
  maxHoldMs: z.int().optional(),
});

const One = z.object({
  holder: Holder,
  grant: z.string(),
  owner: z.string().optional(),
  mode: Mode.optional(),
  permits: z.int().optional(),
  reason: z.string().optional(),
  sinceAt: z.string(),
  endsAt: z.string().optional(),
  /** The lock that was asked for, where it is another than the one shown: a directory above, or a path below. */
  lock: z.string().optional(),
});

/** A lock as lock.get, list and break show it. */
export const Lock = Definition.extend({
  /** Permits in use, or holders. */
  inUse: z.int(),
  waiting: z.int(),
  /** Granted to nobody before this: its last holder did not give it back itself. */
  notBeforeAt: z.string().optional(),
  holders: z.array(One.extend({ fence: z.int() })),
  waiters: z.array(One.extend({ place: z.int() })),
});
export type Lock = z.infer<typeof Lock>;

/** grant, session, agent, owner, state, fence, since, ends, reason, lock, word, permits, ticket, parked: rowOf in Lua. */
export type GrantRow = string[];
/** lockRow of redis/lua/lock-reading.lua. */
export type LockRow = [...string[], GrantRow[], GrantRow[]];

function oneOf(row: GrantRow, name: string, semaphore: boolean) {
  const [grant, session, agent, owner, , , since, ends, reason, lock, word, permits] = row as string[] & { length: 14 };
  return {
    holder: { session: session!, agent: agent! },
    grant: grant!,
    ...(owner === '' ? {} : { owner: owner! }),
    ...(semaphore
      ? { permits: Number(permits) }
      : { mode: word === 's' ? ('shared' as const) : ('exclusive' as const) }),
    ...(reason === '' ? {} : { reason: reason! }),
    sinceAt: instant(since!),
    ...(ends === '' ? {} : { endsAt: instant(ends!) }),
    ...(lock === name ? {} : { lock: lock! }),
  };
}

/** `name`: what was asked for, if anything; a listing shows nodes. */
export function lockOf(row: LockRow, name?: string): Lock {
  const [node, capacity, delay, hold, s, x, p, u, waits, notBefore] = row as unknown as string[];
  const holders = row[11] as GrantRow[];
  const waiters = row[12] as GrantRow[];
  const shown = name ?? (node === 'path:' || node === 'path:/' ? `${node}**` : node!);
  const semaphore = capacity !== '0';
  return {
    name: shown,
    ...(semaphore ? { capacity: Number(capacity) } : {}),
    lockDelayMs: Number(delay),
    ...(hold === '0' ? {} : { maxHoldMs: Number(hold) }),
    inUse: Number(s) + Number(x) + Number(p) + Number(u),
    waiting: Number(waits),
    ...(notBefore === '0' ? {} : { notBeforeAt: instant(notBefore!) }),
    holders: holders.map((each) => ({ ...oneOf(each, shown, semaphore), fence: Number(each[5]) })),
    waiters: waiters.map((each, i) => ({ ...oneOf(each, shown, semaphore), place: i + 1 })),
  };
}

/** Holders and waiters as many as stay within a line; the counts tell that there are more. */
export function fitting(lock: Lock, lineBytes: number): Lock {
  for (let most = Math.max(lock.holders.length, lock.waiters.length); ; most = Math.floor(most / 2)) {
    const cut = { ...lock, holders: lock.holders.slice(0, most), waiters: lock.waiters.slice(0, most) };
    if (most <= 1 || Buffer.byteLength(JSON.stringify(cut)) < lineBytes - 4096) return cut;
  }
}

export { isPath };
