import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Name, utf8Bytes } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { Limit, type LimitRow, limitOf } from './model.js';

const script = lua(import.meta.url, './list.lua', ['prefix', 'cursor', 'limit']);
/** Limits that one script reads: the rest comes with the cursor. */
const rowsMax = 200;

/** At most `count` limits by name, those behind `cursor` if there is one. */
export async function readLimits(
  namespace: Namespace,
  prefix: string,
  cursor: string,
  count: number,
): Promise<Limit[]> {
  return (await namespace.read<LimitRow[]>(script, [prefix, cursor, count])).map(limitOf);
}

export const list = defineCommand({
  name: 'limit.list',
  about: 'Limits by name, a page at a time.',
  allowed: 'watcher',
  params: z.strictObject({
    prefix: Name.optional(),
    cursor: Cursor.optional(),
    limit: z.int().min(1).max(1000).default(100),
  }),
  result: z.object({ limits: z.array(Limit), cursor: z.string().optional() }),
  fails: [],
  run: async ({ prefix = '', cursor = '', limit }, { namespace, config }) => {
    const count = Math.min(limit, rowsMax);
    const found = await readLimits(namespace, prefix, cursor, count);
    const limits: Limit[] = [];
    let bytes = 0;
    for (const shown of found) {
      bytes += utf8Bytes(JSON.stringify(shown)) + 1;
      // The page must fit into a line; what is left out comes with the next one.
      if (bytes > config.gateway.lineBytes - 4096 && limits.length > 0) return { limits, cursor: limits.at(-1)!.name };
      limits.push(shown);
    }
    return found.length < count ? { limits } : { limits, cursor: limits.at(-1)!.name };
  },
});
