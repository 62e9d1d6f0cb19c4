import { z } from 'zod';
import type { Context } from '../context.js';
import { Refusal } from '../errors.js';
import { type ItemError, itemError, itemRefusal } from '../protocol/batch.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Ms } from '../protocol/primitives.js';
import { lua, type Script } from '../redis/script.js';
import { instant, LeaseId, type LeaseKind, noSuchLease, splitLease } from './model.js';

/** Kinds that may have a lease of their own. */
const scripts: Partial<Record<LeaseKind, Script>> = {
  task: lua(import.meta.url, './renew-tasks.lua', ['caller', 'binding']),
  lock: lua(import.meta.url, './renew-locks.lua', ['caller', 'binding']),
  reservation: lua(import.meta.url, './renew-reservations.lua', ['caller', 'binding']),
  once: lua(import.meta.url, './renew-once.lua', ['caller', 'binding']),
};
/** Rows a script takes. */
const rowsMax = 200;

const Item = z.strictObject({ lease: LeaseId, fence: Fence, leaseMs: Ms.optional() });
type Item = z.output<typeof Item>;
type Result = { readonly endsAt: string } | ItemError;

export const renew = defineCommand({
  name: 'lease.renew',
  about: 'Renew holdings; one without a lease of its own renews its session.',
  allowed: 'session',
  params: z.strictObject({ leases: z.array(Item).min(1).max(1000) }),
  result: z.object({ leases: z.array(z.union([z.object({ endsAt: z.string() }), z.custom<ItemError>()])) }),
  fails: ['STALE_FENCE', 'NOT_FOUND', 'INVALID'],
  run: async ({ leases }, context) => {
    const results = new Array<Result>(leases.length);
    const own = new Map<Script, number[]>();
    for (const [i, item] of leases.entries()) {
      const script = scripts[splitLease(item.lease).kind];
      if (!script) results[i] = await renewSession(item, context).catch(itemOf);
      else own.set(script, (own.get(script) ?? []).concat(i));
    }
    for (const [script, places] of own) {
      for (let from = 0; from < places.length; from += rowsMax) {
        const page = places.slice(from, from + rowsMax);
        const items = page.map((i) => leases[i]!);
        const texts = await renewOwn(script, items, context);
        for (const [row, i] of page.entries()) results[i] = resultOf(texts[row]!);
      }
    }
    return { leases: results };
  },
});

function itemOf(error: unknown): ItemError {
  // Redis being away is the answer to the whole request: nothing is known of any item then.
  if (!(error instanceof Refusal) || error.code === 'UNAVAILABLE' || error.code === 'TIMEOUT') throw error;
  return itemError(error);
}

const resultOf = (text: string): Result =>
  text.startsWith('!') ? itemError(itemRefusal(text)) : { endsAt: instant(text) };

function renewOwn(script: Script, items: readonly Item[], { namespace, session }: Context): Promise<string[]> {
  const rows = items.flatMap(({ lease, fence, leaseMs }) => [splitLease(lease).id, fence, leaseMs ?? '']);
  return namespace.call<string[]>(script, [session.id, session.binding, ...rows]);
}

/** The session's own lease, by the fence that its binding is. */
async function renewSession({ lease, fence, leaseMs }: Item, { session, sessions }: Context): Promise<Result> {
  const { kind, id } = splitLease(lease);
  if (kind !== 'session' || id !== session.id) throw noSuchLease(lease);
  if (leaseMs !== undefined) throw new Refusal('INVALID', 'a session lives by its ttl and is renewed without leaseMs');
  const stale = (current: number): Refusal =>
    new Refusal('STALE_FENCE', undefined, { details: { yours: fence, current } });
  if (fence !== session.binding) throw stale(session.binding);
  const renewed = await sessions.prove(session);
  if (renewed.state === 'renewed') return { endsAt: instant(renewed.at + session.ttlMs) };
  throw stale(renewed.state === 'replaced' ? renewed.by : 0);
}
