import { z } from 'zod';
import type { Context } from '../context.js';
import { Refusal } from '../errors.js';
import { type ItemError, itemError, itemRefusal } from '../protocol/batch.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Ms } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { instant, LeaseId, noSuchLease, splitLease } from './model.js';

const script = lua(import.meta.url, './renew-task.lua', ['id', 'fence', 'caller', 'binding', 'leaseMs']);

const Item = z.strictObject({ lease: LeaseId, fence: Fence, leaseMs: Ms.optional() });

export const renew = defineCommand({
  name: 'lease.renew',
  about: 'Renew holdings; one without a lease of its own renews its session.',
  allowed: 'session',
  params: z.strictObject({ leases: z.array(Item).min(1).max(1000) }),
  result: z.object({ leases: z.array(z.union([z.object({ endsAt: z.string() }), z.custom<ItemError>()])) }),
  fails: ['STALE_FENCE', 'NOT_FOUND', 'INVALID'],
  run: async ({ leases }, context) => {
    const results = [];
    for (const item of leases) {
      try {
        results.push({ endsAt: instant(await renewOne(item, context)) });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        results.push(itemError(error));
      }
    }
    return { leases: results };
  },
});

/** Answers when the lease ends now, in milliseconds. */
async function renewOne(
  { lease, fence, leaseMs }: z.output<typeof Item>,
  { namespace, session, sessions }: Context,
): Promise<number> {
  const { kind, id } = splitLease(lease);
  if (kind === 'task') {
    const [text, endsAt] = await namespace.call<[string, string]>(script, [
      id,
      fence,
      session.id,
      session.binding,
      leaseMs ?? '',
    ]);
    if (text.startsWith('!')) throw itemRefusal(text);
    return Number(endsAt);
  }
  if (kind !== 'session' || id !== session.id) throw noSuchLease(lease);
  if (leaseMs !== undefined) throw new Refusal('INVALID', 'a session lives by its ttl and is renewed without leaseMs');
  const stale = new Refusal('STALE_FENCE', undefined, { details: { yours: fence, current: session.binding } });
  if (fence !== session.binding) throw stale;
  const renewed = await sessions.prove(session);
  if (renewed.state !== 'renewed') throw stale;
  return renewed.at + session.ttlMs;
}
