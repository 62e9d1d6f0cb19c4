import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Holder, Name, SessionId } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { type HoldingRow, instant, LeaseKind, namesOf } from './model.js';

const sessionsScript = lua(import.meta.url, './sessions.lua', ['first', 'count']);
const holdingsScript = lua(import.meta.url, './holdings.lua', ['id', 'cursor', 'limit', 'bytes']);

const Lease = z.object({
  lease: z.string(),
  kind: LeaseKind,
  holder: Holder,
  name: z.string(),
  locks: z.array(z.string()).optional(),
  /** Of a wait for a lock or a reservation, which has no fence yet. */
  state: z.literal('waiting').optional(),
  fence: z.int().optional(),
  sinceAt: z.string(),
  endsAt: z.string().optional(),
});
type Lease = z.infer<typeof Lease>;

/** Of a line, for the rows. */
const rowsShare = 0.9;
/** A row is less than this on the wire: fifty locks with names of 200 bytes, all of which JSON writes as two. */
const rowBytesMost = 24 * 1024;
/** Reads a call makes before it answers with what it has: a filter that finds nothing goes on with its cursor. */
const readsMax = 100;
const pageOfNames = 100;

/**
 * Where a listing is: at the first session that is not done, by name, and how far in that one: '' for its beginning, '+'
 * for behind its own lease, then the cursor of its holdings.
 */
interface Place {
  readonly session: string;
  readonly held: string;
}

const print = ({ session, held }: Place): string => `${session}|${held}`;
/** Where the holdings of one session go on, by the cursor of redis/lua/holdings.lua. */
export const cursorBehind = (held: string): string => print({ session: '', held: `+${held}` });
function read(cursor: string | undefined): Place {
  if (cursor === undefined) return { session: '', held: '' };
  const found = /^([^|]*)\|((?:\+.*)?)$/.exec(cursor);
  if (!found) throw new Refusal('BAD_REQUEST', 'cursor is not one this op gave', { path: 'cursor' });
  return { session: found[1]!, held: found[2]! };
}

type Holdings = [[agent: string, binding: string, openedAt: string, endsAt: string] | '', HoldingRow[], string];
interface Wanted {
  readonly agent: string | undefined;
  readonly kind: LeaseKind | undefined;
}

/** What a page may hold. */
interface Most {
  readonly rows: number;
  readonly bytes: number;
}

/** A page of one session from `held` on: its own lease ahead of what it holds. `next` is '' at its end. */
async function ofSession(namespace: Namespace, id: string, held: string, most: Most, wanted: Wanted) {
  const wants = (kind: string): boolean => wanted.kind === undefined || wanted.kind === kind;
  const own = held === '' && wants('session');
  // Nothing but sessions is wanted, or there is room for its own lease only: what it holds is not read.
  const room = wanted.kind === 'session' ? 0 : most.rows - (own ? 1 : 0);
  const [row, rows, cursor] = await namespace.read<Holdings>(holdingsScript, [id, held.slice(1), room, most.bytes]);
  const leases: Lease[] = [];
  if (row === '' || (wanted.agent !== undefined && row[0] !== wanted.agent)) return { leases, next: '' };
  const [agent, binding, openedAt, endsAt] = row;
  const holder = { session: id, agent };
  if (own) {
    const times = { sinceAt: instant(openedAt), endsAt: instant(endsAt) };
    leases.push({ lease: `session:${id}`, kind: 'session', holder, name: id, fence: Number(binding), ...times });
  }
  for (const row of rows) {
    const [kind, name, fence, , since, ends, state] = row;
    if (!wants(kind)) continue;
    const times = { sinceAt: instant(since), ...(ends === '' ? {} : { endsAt: instant(ends) }) };
    const held = state === 'waiting' ? { state } : { fence: Number(fence) };
    leases.push({ lease: `${kind}:${name}`, kind: kind as LeaseKind, holder, ...namesOf(row), ...held, ...times });
  }
  const more = cursor !== '' || (room === 0 && wanted.kind !== 'session');
  return { leases, next: more ? `+${cursor}` : '' };
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
  run: async ({ session, agent, kind, cursor, limit }, { namespace, config }) => {
    let bytes = Math.floor(config.gateway.lineBytes * rowsShare);
    const wanted = { agent, kind };
    let place = read(cursor);
    if (session !== undefined) {
      const { leases, next } = await ofSession(namespace, session, place.held, { rows: limit, bytes }, wanted);
      return next === '' ? { leases } : { leases, cursor: print({ session: '', held: next }) };
    }
    const leases: Lease[] = [];
    for (let reads = 0; ; ) {
      const ids = await namespace.read<string[]>(sessionsScript, [place.session, pageOfNames]);
      for (const id of ids) {
        const held = id === place.session ? place.held : '';
        const isFull = leases.length >= limit || (bytes < rowBytesMost && leases.length > 0);
        if (isFull || reads++ >= readsMax) return { leases, cursor: print({ session: id, held }) };
        const page = await ofSession(namespace, id, held, { rows: limit - leases.length, bytes }, wanted);
        leases.push(...page.leases);
        bytes -= Buffer.byteLength(JSON.stringify(page.leases));
        if (page.next !== '') return { leases, cursor: print({ session: id, held: page.next }) };
      }
      if (ids.length < pageOfNames) return { leases };
      // The least name behind the last one: names hold no control characters.
      place = { session: `${ids.at(-1)}\u0001`, held: '' };
    }
  },
});
