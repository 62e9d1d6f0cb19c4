import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Context, SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { defineCommand } from '../protocol/command.js';
import { Ms, Name, NamespaceName, SessionId, Tenant, utf8Bytes } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { Holding, type HoldingRow, holdingOf } from './model.js';

const openScript = lua(import.meta.url, './open.lua', [
  'id',
  'agent',
  'tenant',
  'ttlMs',
  'graceMs',
  'keyHash',
  'labels',
]);
const resumeScript = lua(import.meta.url, './resume.lua', ['id', 'keyHash']);

const labelsMax = 16;
const Label = z
  .string()
  .refine((text) => text.isWellFormed() && utf8Bytes(text) <= 200, 'expected at most 200 bytes of well-formed Unicode');
const Labels = z
  .record(Name, Label)
  .refine((labels) => Object.keys(labels).length <= labelsMax, `expected at most ${labelsMax} labels`);

const hash = (key: string): string => createHash('sha256').update(key).digest('base64url');

export const open = defineCommand({
  name: 'session.open',
  about: 'Open a session, or resume one on this connection; what the agent owns hangs on it.',
  allowed: 'anyone',
  params: z.strictObject({
    agent: Name,
    namespace: NamespaceName.default('default'),
    tenant: Tenant.default('default'),
    ttlMs: Ms.optional(),
    token: z.string().max(4096).optional(),
    labels: Labels.optional(),
    resume: z.strictObject({ session: SessionId, key: z.string().min(1).max(200) }).optional(),
  }),
  result: z.object({
    session: z.string(),
    key: z.string(),
    ttlMs: z.int(),
    graceMs: z.int(),
    resumed: z.boolean(),
    position: z.string(),
    holdings: z.array(Holding),
    lastClose: z.object({ code: z.int(), reason: z.string(), at: z.string() }).optional(),
  }),
  fails: ['UNAUTHENTICATED', 'FORBIDDEN', 'SESSION_LOST', 'BAD_KEY', 'LIMIT', 'CONFLICT', 'BAD_REQUEST'],
  run: async (params, context) => {
    const { connection, config } = context;
    if (!connection.authenticate(params.token)) throw new Refusal('UNAUTHENTICATED');
    if (connection.session) throw new Refusal('CONFLICT', 'this connection has a session already; close it first');
    const ttlMs = params.ttlMs ?? config.session.ttlMs;
    const { ttlMinMs, ttlMaxMs } = config.session;
    if (ttlMs < ttlMinMs || ttlMs > ttlMaxMs) {
      throw new Refusal('BAD_REQUEST', `ttlMs is ${ttlMs}; expected ${ttlMinMs} to ${ttlMaxMs}`, { path: 'ttlMs' });
    }
    if (params.resume) return resume(params.resume, context);
    const { agent, tenant, labels = {} } = params;
    const { graceMs } = config.session;
    const id = newId();
    const key = randomBytes(24).toString('base64url');
    const args = [id, agent, tenant, ttlMs, graceMs, hash(key), JSON.stringify(labels)];
    const [binding, position] = await context.namespace.call<[string, string]>(openScript, args);
    connection.attach({ id, agent, tenant, binding: Number(binding), ttlMs, graceMs });
    return { session: id, key, ttlMs, graceMs, resumed: false, position, holdings: [] };
  },
});

type Resumed = [string, string, string, string, string, string, string, HoldingRow[], string];

async function resume({ session, key }: { session: string; key: string }, { namespace, connection }: Context) {
  const [binding, position, agent, tenant, ttl, grace, last, rows] = await namespace.call<Resumed>(resumeScript, [
    session,
    hash(key),
  ]);
  const [ttlMs, graceMs] = [Number(ttl), Number(grace)];
  const ref: SessionRef = { id: session, agent, tenant, binding: Number(binding), ttlMs, graceMs };
  connection.attach(ref);
  return {
    session,
    key,
    ttlMs,
    graceMs,
    resumed: true,
    position,
    holdings: rows.map(holdingOf),
    ...(last === '' ? {} : { lastClose: JSON.parse(last) as { code: number; reason: string; at: string } }),
  };
}
