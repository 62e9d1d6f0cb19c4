import { z } from 'zod';
import { Refusal } from '../errors.js';
import { itemError, itemRefusal } from '../protocol/batch.js';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Kind, Queue, TaskId, Tenant } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua, type Script } from '../redis/script.js';
import { any, nextCursor, readCursor, setsOf } from './list.js';
import { ItemError, State } from './model.js';

const script = lua(import.meta.url, './purge.lua', ['queue', 'set', 'kind', 'tenant', 'cursor']);

/** Params and result that purge and redrive share: either the tasks by id, or a page by state and filter. */
export const BulkParams = z.strictObject({
  queue: Queue,
  state: State.optional(),
  tasks: z.array(TaskId).min(1).max(1000).optional(),
  filter: z.strictObject({ kind: Kind.optional(), tenant: Tenant.optional() }).optional(),
  cursor: Cursor.optional(),
});
export const BulkResult = z.object({
  count: z.int(),
  cursor: z.string().optional(),
  tasks: z.array(z.union([z.object({ state: State }), ItemError])).optional(),
});
type Params = z.output<typeof BulkParams>;
type Reply = [number, string, string[]];

/** Runs a bulk script over ids in pieces of 200, or over one page of the sets. */
export async function runBulk(
  bulk: Script,
  params: Params,
  sets: readonly string[],
  namespace: Namespace,
  more: readonly number[] = [],
) {
  const { queue, tasks, filter, cursor } = params;
  if (tasks && (filter || cursor)) throw new Refusal('INVALID', 'name tasks, or give a filter; not both');
  const names = [filter?.kind ?? any, filter?.tenant ?? any];
  let count = 0;
  if (!tasks) {
    let place = cursor ?? `${sets[0]}|`;
    for (;;) {
      const { set, at } = readCursor(place, sets);
      const [done, after] = await namespace.call<Reply>(bulk, [queue, set, ...names, at, ...more]);
      count += done;
      const next = nextCursor(sets, set, after);
      if (next === undefined) return { count };
      // The rest of a set is the next request's; a set that is through leaves its place to the next one.
      if (after !== '' || count >= 200) return { count, cursor: next };
      place = next;
    }
  }
  const results: z.input<typeof BulkResult>['tasks'] = [];
  for (let i = 0; i < tasks.length; i += 200) {
    const args = [queue, params.state ?? '', ...names, '', ...more, ...tasks.slice(i, i + 200)];
    const [done, , texts] = await namespace.call<Reply>(bulk, args);
    count += done;
    for (const text of texts)
      results.push(text.startsWith('!') ? itemError(itemRefusal(text)) : { state: text as State });
  }
  return { count, tasks: results };
}

export const purge = defineCommand({
  name: 'queue.purge',
  about: 'Remove tasks by id, or a page by state and filter; go on with the cursor. Running tasks are never removed.',
  allowed: 'session',
  params: BulkParams,
  result: BulkResult,
  fails: ['CONFLICT', 'NOT_FOUND', 'INVALID', 'BAD_REQUEST'],
  run: (params, { namespace }) => {
    if (params.state === 'active') throw new Refusal('INVALID', 'running tasks are not removed; cancel them');
    const sets = params.state ? setsOf(params.state) : ['ready', 'scheduled', 'blocked'];
    return runBulk(script, params, sets, namespace);
  },
});
