import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Queue, utf8Bytes } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const statsScript = lua(import.meta.url, './stats.lua', ['queue']);
export const queuesScript = lua(import.meta.url, './queues.lua', ['after', 'limit']);

const Rates = z.object({ enqueued: z.number(), completed: z.number(), failed: z.number() });
const Bands = z.object({ critical: z.int(), high: z.int(), normal: z.int(), low: z.int(), background: z.int() });
export const QueueStats = z.object({
  queue: z.string(),
  states: z.record(z.string(), z.int()),
  bands: Bands,
  tenants: z.array(z.object({ tenant: z.string(), waiting: z.int(), active: z.int() })),
  kinds: z.array(z.object({ kind: z.string(), waiting: z.int(), active: z.int() })),
  oldestReadyMs: z.int(),
  depth: z.int(),
  maxDepth: z.int().optional(),
  overloaded: z.boolean(),
  rates: Rates,
  paused: z.boolean(),
  /** Where admission is on: its level, and how many tasks were shed and rejected since. */
  pressure: z.object({ level: z.int(), shed: z.int(), rejected: z.int() }).optional(),
});

type Row = [string, string, string];
type Reply = [
  number[],
  string,
  number,
  string,
  [string, string, string],
  Row[],
  Row[],
  string[],
  [string, string, string] | '',
];

export async function readStats(queue: string, namespace: Namespace): Promise<z.infer<typeof QueueStats>> {
  const [sizes, age, paused, max, rates, tenants, kinds, bands, admitted] = await namespace.read<Reply>(statsScript, [
    queue,
  ]);
  const [ready, blocked, scheduled, active, completed, windowed, dead, cancelled, expired] = sizes as [
    number,
    ...number[],
  ] &
    number[];
  const [level, shed, rejected] = [...admitted].map(Number);
  const pressure = admitted === '' ? undefined : { level: level!, shed: shed!, rejected: rejected! };
  const depth = ready + blocked!;
  const perSecond = (count: string): number => Math.round((Number(count) / 60) * 100) / 100;
  const [critical, high, normal, low, background] = bands.map(Number) as [number, number, number, number, number];
  return {
    queue,
    states: {
      scheduled: scheduled!,
      ready,
      blocked: blocked!,
      active: active!,
      completed: completed! + windowed!,
      dead: dead!,
      cancelled: cancelled!,
      expired: expired!,
    },
    bands: { critical, high, normal, low, background },
    tenants: tenants
      .map(([tenant, waiting, busy]) => ({ tenant, waiting: Number(waiting), active: Number(busy) }))
      .sort((a, b) => b.waiting + b.active - a.waiting - a.active)
      .slice(0, 20),
    kinds: kinds.map(([kind, waiting, busy]) => ({ kind, waiting: Number(waiting), active: Number(busy) })),
    oldestReadyMs: Number(age),
    depth,
    ...(max === '' ? {} : { maxDepth: Number(max) }),
    overloaded: (max !== '' && depth + scheduled! >= Number(max)) || pressure?.level === 3,
    rates: { enqueued: perSecond(rates[0]), completed: perSecond(rates[1]), failed: perSecond(rates[2]) },
    paused: paused === 1,
    ...(pressure ? { pressure } : {}),
  };
}

export const stats = defineCommand({
  name: 'queue.stats',
  about: 'Health of one queue, or of all a page at a time: states, bands, tenants, kinds, oldest, depth, rates.',
  allowed: 'watcher',
  params: z.strictObject({ queue: Queue.optional(), cursor: Cursor.optional() }),
  result: z.object({ queues: z.array(QueueStats), cursor: z.string().optional() }),
  fails: [],
  run: async ({ queue, cursor }, { namespace, config }) => {
    if (queue !== undefined) return { queues: [await readStats(queue, namespace)] };
    const names = await namespace.read<string[]>(queuesScript, [cursor ?? '', 51]);
    const queues: z.infer<typeof QueueStats>[] = [];
    let bytes = 0;
    for (const name of names.slice(0, 50)) {
      const one = await readStats(name, namespace);
      bytes += utf8Bytes(JSON.stringify(one)) + 1;
      // The page must fit into a line; what is left out comes with the next one.
      if (bytes > config.gateway.lineBytes - 4096 && queues.length > 0) break;
      queues.push(one);
    }
    return { queues, ...(queues.length < names.length ? { cursor: names[queues.length - 1]! } : {}) };
  },
});
