import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Kind, Queue, Tenant, utf8Bytes } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { lua } from '../redis/script.js';
import { State, Task } from './model.js';
import { taskText } from './record.js';

const script = lua(import.meta.url, './list.lua', ['queue', 'set', 'kind', 'tenant', 'cursor', 'limit']);

/** No name can be this: names hold no control characters. */
export const any = '\0';

/**
 * The sets a state's tasks stand in. Completed ones wait apart while their key is taken: that set goes first, so that one
 * which moves between two pages comes twice and not never.
 */
export const setsOf = (state: State): readonly string[] =>
  state === 'completed' ? ['windowed', 'completed'] : [state];

/** `<set>|<cursor in it>`, so that a listing can go through several sets. */
export function readCursor(cursor: string, sets: readonly string[]): { set: string; at: string } {
  const bar = cursor.indexOf('|');
  const set = cursor.slice(0, Math.max(bar, 0));
  if (!sets.includes(set)) throw new Refusal('BAD_REQUEST', 'cursor is not one this op gave', { path: 'cursor' });
  return { set, at: cursor.slice(bar + 1) };
}

/** Where to go on: further in this set, at the next one, or nowhere. */
export function nextCursor(sets: readonly string[], set: string, at: string): string | undefined {
  if (at !== '') return `${set}|${at}`;
  const following = sets[sets.indexOf(set) + 1];
  return following === undefined ? undefined : `${following}|`;
}

/** Rows that one script looks at: a thousand hold Redis for 36 ms, and whoever claims would wait for a listing. */
const rowsMax = 200;

export const list = defineCommand({
  name: 'queue.list',
  about: 'List the tasks of a queue in one state, a page at a time, without payloads and results.',
  allowed: 'watcher',
  params: z.strictObject({
    queue: Queue,
    state: State,
    kind: Kind.optional(),
    tenant: Tenant.optional(),
    cursor: Cursor.optional(),
    limit: z.int().min(1).max(1000).default(100),
  }),
  result: z.object({ tasks: z.array(Task), cursor: z.string().optional() }),
  fails: [],
  run: async ({ queue, state, kind, tenant, cursor, limit }, { namespace, config }) => {
    const sets = setsOf(state);
    let place: string | undefined = cursor ?? `${sets[0]}|`;
    const texts: string[] = [];
    let bytes = 0;
    for (let looked = 0; place !== undefined && looked < limit; ) {
      const { set, at } = readCursor(place, sets);
      const count = Math.min(limit - looked, rowsMax);
      looked += count;
      const args = [queue, set, kind ?? any, tenant ?? any, at, count];
      type Reply = [[string, string, string[] | '', string][], string, string];
      const [rows, after, attempts] = await namespace.read<Reply>(script, args);
      for (const [id, head, run, own] of rows) {
        const text = taskText(id, head, run, attempts, false);
        bytes += utf8Bytes(text) + 1;
        // The page must fit into a line; what is left out comes with the next one.
        if (bytes > config.gateway.lineBytes - 4096 && texts.length > 0) return page(texts, place);
        texts.push(text);
        place = `${set}|${own}`;
      }
      place = nextCursor(sets, set, after);
    }
    return page(texts, place);
  },
});

function page(texts: readonly string[], cursor: string | undefined): Raw<never> {
  return new Raw(`{"tasks":[${texts.join(',')}]${cursor === undefined ? '' : `,"cursor":${JSON.stringify(cursor)}`}}`);
}
