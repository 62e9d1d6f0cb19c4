import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Holder, Name, SessionId } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { type HoldingRow, instant, LeaseKind } from './model.js';

const sessionsScript = lua(import.meta.url, './sessions.lua', ['cursor']);
const holdingsScript = lua(import.meta.url, './holdings.lua', ['id', 'cursor', 'limit']);

const Lease = z.object({
  lease: z.string(),
  kind: LeaseKind,
  holder: Holder,
  name: z.string(),
  fence: z.int(),
  sinceAt: z.string(),
  endsAt: z.string().optional(),
});
type Lease = z.infer<typeof Lease>;

/** Where a listing is: the page of sessions (`scan`), the session in it, and how far in what that one holds. */
interface Place {
  readonly scan: string;
  readonly session: string;
  readonly held: string;
}

const start: Place = { scan: '0', session: '', held: '' };
const print = (place: Place): string => `${place.scan}|${place.session}|${place.held}`;
function read(cursor: string | undefined): Place {
  if (cursor === undefined) return start;
  const found = /^(\d+)\|([^|]*)\|(.*)$/.exec(cursor);
  if (!found) throw new Refusal('BAD_REQUEST', 'cursor is not one this op gave', { path: 'cursor' });
  return { scan: found[1]!, session: found[2]!, held: found[3]! };
}

type Holdings = [[string, string, string, string] | '', HoldingRow[], string];
type Filter = { agent?: string | undefined; kind?: LeaseKind | undefined };

/** A page of one session: its own lease ahead of what it holds. */
async function ofSession(id: string, held: string, limit: number, filter: Filter, namespace: Namespace) {
  const [row, rows, next] = await namespace.read<Holdings>(holdingsScript, [id, held, limit]);
  const leases: Lease[] = [];
  if (row === '' || (filter.agent !== undefined && row[0] !== filter.agent)) return { leases, next: '' };
  const holder = { session: id, agent: row[0] };
  const [, binding, openedAt, endsAt] = row;
  const wanted = (kind: string): boolean => filter.kind === undefined || filter.kind === kind;
  if (held === '' && wanted('session')) {
    const own = { lease: `session:${id}`, kind: 'session' as const, holder, name: id };
    leases.push({ ...own, fence: Number(binding), sinceAt: instant(openedAt), endsAt: instant(endsAt) });
  }
  for (const [kind, name, fence, , since, ends] of rows) {
    if (!wanted(kind)) continue;
    const lease = {
      lease: `${kind}:${name}`,
      kind: kind as LeaseKind,
      holder,
      name,
      fence: Number(fence),
      sinceAt: instant(since),
    };
    leases.push(ends === '' ? lease : { ...lease, endsAt: instant(ends) });
  }
  return { leases, next };
}

export const list = defineCommand({
  name: 'lease.list',
  about: 'Live sessions and what they hold, a page at a time.',
  allowed: 'watcher',
  params: z.strictObject({
    session: SessionId.optional(),
    agent: Name.optional(),
    kind: LeaseKind.optional(),
    cursor: Cursor.optional(),
    limit: z.int().min(1).max(1000).default(100),
  }),
  result: z.object({ leases: z.array(Lease), cursor: z.string().optional() }),
  fails: ['BAD_REQUEST'],
  run: async ({ session, agent, kind, cursor, limit }, { namespace }) => {
    const filter = { agent, kind };
    let place = read(cursor);
    const leases: Lease[] = [];
    if (session !== undefined) {
      const page = await ofSession(session, place.held, limit, filter, namespace);
      return { leases: page.leases, ...(page.next === '' ? {} : { cursor: print({ ...place, held: page.next }) }) };
    }
    // At most this many reads a call: a listing that filters nearly everything out goes on with its cursor.
    for (let reads = 0; reads < 100; ) {
      const [next, ids] = await namespace.read<[string, string[]]>(sessionsScript, [place.scan]);
      const from = Math.max(0, ids.indexOf(place.session));
      for (const id of ids.slice(from)) {
        const held = id === place.session ? place.held : '';
        if (leases.length >= limit || ++reads > 100) return { leases, cursor: print({ ...place, session: id, held }) };
        const page = await ofSession(id, held, limit - leases.length, filter, namespace);
        leases.push(...page.leases);
        if (page.next !== '') return { leases, cursor: print({ ...place, session: id, held: page.next }) };
      }
      if (next === '0') return { leases };
      place = { scan: next, session: '', held: '' };
      reads++;
    }
    return { leases, cursor: print(place) };
  },
});
