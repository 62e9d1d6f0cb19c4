import { z } from 'zod';
import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { defineCommand } from '../protocol/command.js';
import { Kind, Ms, Name, Queue } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './held-by-worker.lua', ['session', 'worker', 'queue', 'cursor', 'limit']);
const pageMax = 1000;

/** Tasks that a worker of a session holds in a queue: `[task, fence]`. */
export async function heldByWorker(
  namespace: Namespace,
  session: string,
  worker: string,
  queue: string,
): Promise<[string, string][]> {
  const all: [string, string][] = [];
  let cursor = '';
  do {
    const args = [session, worker, queue, cursor, pageMax];
    const [rows, next] = await namespace.read<[[string, string][], string]>(script, args);
    all.push(...rows);
    cursor = next;
  } while (cursor !== '');
  return all;
}

export const Credit = z.int().min(0).max(1000);
export const Kinds = z.array(Kind).min(1).max(16);

export const work = defineCommand({
  name: 'queue.work',
  about: 'Declare a worker: tasks are pushed to it as long as it has fewer than `credit` unfinished.',
  allowed: 'session',
  params: z.strictObject({
    queue: Queue,
    credit: Credit,
    kinds: Kinds.optional(),
    leaseMs: Ms.optional(),
    worker: Name.optional(),
  }),
  result: z.object({ worker: z.string() }),
  fails: ['INVALID'],
  run: async ({ queue, credit, kinds, leaseMs, worker }, { namespace, session, connection }) => {
    if (kinds && new Set(kinds).size < kinds.length) throw new Refusal('INVALID', 'kinds names one kind twice');
    const name = worker ?? newId();
    // A worker with a name of its own may be one that comes back: what it still holds counts against its credit.
    const held = worker === undefined ? [] : await heldByWorker(namespace, session.id, name, queue);
    const holds = held.map(([task, fence]) => ({ task, fence: Number(fence) }));
    connection.workers.declare({ worker: name, queue, credit, kinds, leaseMs, holds });
    return { worker: name };
  },
});
