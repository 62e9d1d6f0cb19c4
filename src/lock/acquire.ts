import { z } from 'zod';
import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Holder, Ms, MsOrZero, Name, Reason } from '../protocol/primitives.js';
import type { AskedLock } from './joins.js';
import { Grant, LockName, Mode, Permits, taken } from './model.js';

const words = { mode: Mode.optional(), permits: Permits.optional() };
const One = z.strictObject({ name: LockName, ...words });
const locksMax = 50;
/** A path counts for each directory above it. */
const nodesMax = 500;

const Params = z.strictObject({
  locks: z.array(One).min(1).max(locksMax).optional(),
  name: LockName.optional(),
  ...words,
  grant: Grant.optional(),
  owner: Name.optional(),
  waitMs: MsOrZero.default(0),
  leaseMs: Ms.optional(),
  maxHoldMs: Ms.optional(),
  reason: Reason.optional(),
  onDisconnect: z.enum(['hold', 'release']).default('hold'),
  reclaim: Fence.optional(),
});
type Params = z.output<typeof Params>;

const Widened = z.array(z.object({ name: z.string(), to: z.string() })).optional();

export const acquire = defineCommand({
  name: 'lock.acquire',
  about: 'Take one lock or several in one step, or wait for them in turn; the same grant again is the same request.',
  allowed: 'session',
  params: Params,
  result: z.union([
    z.object({
      grant: z.string(),
      state: z.literal('held'),
      fence: z.int(),
      validMs: z.int(),
      /** It is taken away this long after the grant, however alive its holder is. */
      maxHoldMs: z.int().optional(),
      epoch: z.string(),
      durability: z.string(),
      widened: Widened,
    }),
    z.object({
      grant: z.string(),
      state: z.literal('waiting'),
      place: z.int(),
      /** Who is in the way. */
      held: z.looseObject({ lock: z.string().optional(), holder: Holder.optional(), reason: z.string().optional() }),
      widened: Widened,
    }),
  ]),
  fails: [
    'HELD',
    'DEADLOCK',
    'NEVER_FITS',
    'KIND_MISMATCH',
    'STALE_FENCE',
    'SESSION_LOST',
    'CONFLICT',
    'INVALID',
    'LIMIT',
  ],
  run: async (params, { locks: joins, session }) => {
    const { grant = newId(), owner, waitMs, leaseMs, maxHoldMs, reason, onDisconnect, reclaim } = params;
    if (reclaim !== undefined && params.grant === undefined) {
      throw new Refusal('INVALID', 'reclaim goes with the grant that is claimed back');
    }
    const asked = askedOf(params);
    const widened = asked.flatMap(({ asked: name, name: to }) => (name === to ? [] : [{ name, to }]));
    const release = onDisconnect === 'release';
    const ask = { grant, owner, waitMs, leaseMs, maxHoldMs, reason, release, reclaim, locks: asked };
    const acquired = await joins.acquire(session, ask);
    return { grant, ...acquired, ...(widened.length > 0 ? { widened } : {}) };
  },
});

function askedOf({ locks, name, mode, permits }: Params): (AskedLock & { asked: string })[] {
  if ((locks === undefined) === (name === undefined)) throw new Refusal('INVALID', 'give name or locks, one of them');
  if (locks && (mode || permits))
    throw new Refusal('INVALID', 'mode and permits stand beside a name, in each of locks');
  const asked = (locks ?? [{ name: name!, mode, permits }]).map(lockOf);
  if (new Set(asked.map(({ node }) => node)).size < asked.length) {
    throw new Refusal('INVALID', 'locks names one lock twice');
  }
  const nodes = asked.reduce((sum, { node }) => sum + (node.startsWith('path:') ? node.split('/').length + 1 : 1), 0);
  if (nodes > nodesMax)
    throw new Refusal('LIMIT', `these paths have ${nodes} directories above them, at most ${nodesMax} are taken`);
  return asked;
}

function lockOf({ name, mode, permits }: z.output<typeof One>): AskedLock & { asked: string } {
  if (mode !== undefined && permits !== undefined) {
    throw new Refusal('INVALID', 'mode is for read/write locks and permits for semaphores; a lock is one of them');
  }
  const word = mode === 'shared' ? 's' : mode === 'exclusive' ? 'x' : permits === undefined ? 'd' : 'p';
  const { name: to, node } = taken(name);
  return { asked: name, name: to, node, word, permits: permits ?? 1 };
}
