import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { ConnectionPort, Context, SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { defineCommand } from '../protocol/command.js';
import { Ms, Name, NamespaceName, SessionId, Tenant, utf8Bytes } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { cursorBehind } from './list.js';
import { Holding, type HoldingRow, holdingOf } from './model.js';
import { present } from './present.js';
import { socketGone } from './socket-gone.js';

const openScript = lua(import.meta.url, './open.lua', [
  'id',
  'agent',
  'tenant',
  'ttlMs',
  'graceMs',
  'keyHash',
  'labels',
]);
const resumeScript = lua(import.meta.url, './resume.lua', ['id', 'keyHash', 'bytes']);
/** Of a line, for the holdings; the rest is for what stands around them. */
const holdingsShare = 0.9;

const labelsMax = 16;
const Label = z
  .string()
  .refine((text) => text.isWellFormed() && utf8Bytes(text) <= 200, 'expected at most 200 bytes of well-formed Unicode');
const Labels = z
  .record(Name, Label)
  .refine((labels) => Object.keys(labels).length <= labelsMax, `expected at most ${labelsMax} labels`);

const Params = z.strictObject({
  agent: Name,
  namespace: NamespaceName.default('default'),
  tenant: Tenant.default('default'),
  ttlMs: Ms.optional(),
  token: z.string().max(4096).optional(),
  labels: Labels.optional(),
  resume: z.strictObject({ session: SessionId, key: z.string().min(1).max(200) }).optional(),
});

const hash = (key: string): string => createHash('sha256').update(key).digest('base64url');

export const open = defineCommand({
  name: 'session.open',
  about: 'Open a session, or resume one on this connection; what the agent owns hangs on it.',
  allowed: 'anyone',
  params: Params,
  result: z.object({
    session: z.string(),
    key: z.string(),
    ttlMs: z.int(),
    graceMs: z.int(),
    resumed: z.boolean(),
    position: z.string(),
    holdings: z.array(Holding),
    /** Not all of them had room: `lease.list` of this session goes on from here. */
    cursor: z.string().optional(),
    lastClose: z.object({ code: z.int(), reason: z.string(), at: z.string() }).optional(),
  }),
  fails: ['UNAUTHENTICATED', 'FORBIDDEN', 'SESSION_LOST', 'BAD_KEY', 'LIMIT', 'CONFLICT', 'BAD_REQUEST'],
  opens: ({ token, ttlMs, resume }, { connection, config }) => {
    if (!connection.authenticate(token)) throw new Refusal('UNAUTHENTICATED');
    ttlOf(ttlMs, config);
    return resume === undefined;
  },
  run: async (params, context) => {
    const { connection } = context;
    if (!connection.authenticate(params.token)) throw new Refusal('UNAUTHENTICATED');
    if (connection.session) throw new Refusal('CONFLICT', 'this connection has a session already; close it first');
    // No other one is on its way: the gateway holds what stands behind a session.open until that is answered.
    const ttlMs = ttlOf(params.ttlMs, context.config);
    if (!params.resume) return begin({ ...params, ttlMs }, context);
    if (!context.served) throw new Refusal('SESSION_LOST', 'nobody has opened this namespace');
    return resume(params.resume, context);
  },
});

function ttlOf(asked: number | undefined, { session }: Context['config']): number {
  const ttlMs = asked ?? session.ttlMs;
  const { ttlMinMs, ttlMaxMs } = session;
  if (ttlMs >= ttlMinMs && ttlMs <= ttlMaxMs) return ttlMs;
  throw new Refusal('BAD_REQUEST', `ttlMs is ${ttlMs}; expected ${ttlMinMs} to ${ttlMaxMs}`, { path: 'ttlMs' });
}

type New = Pick<z.output<typeof Params>, 'agent' | 'tenant' | 'labels'> & { readonly ttlMs: number };

async function begin({ agent, tenant, ttlMs, labels = {} }: New, { namespace, connection, config }: Context) {
  const { graceMs } = config.session;
  const id = newId();
  const key = randomBytes(24).toString('base64url');
  const args = [id, agent, tenant, ttlMs, graceMs, hash(key), JSON.stringify(labels)];
  const [binding, position] = await namespace.call<[string, string]>(openScript, args);
  attach({ id, agent, tenant, binding: Number(binding), ttlMs, graceMs }, namespace, connection);
  return { session: id, key, ttlMs, graceMs, resumed: false, position, holdings: [] };
}

type Resumed = [
  binding: string,
  position: string,
  agent: string,
  tenant: string,
  ttlMs: string,
  graceMs: string,
  lastClose: string,
  held: HoldingRow[],
  /** 1: it counts as broken until `present`. */
  owes: number,
  more: string,
];

async function resume({ session, key }: { session: string; key: string }, context: Context) {
  const { namespace, connection, config } = context;
  const bytes = Math.floor(config.gateway.lineBytes * holdingsShare);
  const reply = await namespace.call<Resumed>(resumeScript, [session, hash(key), bytes]);
  const [binding, position, agent, tenant, ttl, grace, last, rows, owes, more] = reply;
  const [ttlMs, graceMs] = [Number(ttl), Number(grace)];
  const ref: SessionRef = { id: session, agent, tenant, binding: Number(binding), ttlMs, graceMs };
  attach(ref, namespace, connection);
  const lastClose = last === '' ? {} : { lastClose: JSON.parse(last) as { code: number; reason: string; at: string } };
  if (owes === 1) present(namespace, ref, connection);
  const holdings = { holdings: rows.map(holdingOf), ...(more === '' ? {} : { cursor: cursorBehind(more) }) };
  return { session, key, ttlMs, graceMs, resumed: true, position, ...holdings, ...lastClose };
}

function attach(ref: SessionRef, namespace: Namespace, connection: ConnectionPort): void {
  connection.attach(ref);
  // The socket went while Redis was asked: nobody holds the session then, and nobody else will notice.
  if (connection.session !== ref) socketGone(namespace, ref, 'broken').catch(() => undefined);
}
