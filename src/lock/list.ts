import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Cursor, Name } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { fitting, Lock, type LockRow, lockOf } from './model.js';

const script = lua(import.meta.url, './list.lua', ['prefix', 'cursor', 'limit', 'most']);
/** Holders, and waiters, of each lock; lock.get shows more. */
const shownMax = 5;

export const list = defineCommand({
  name: 'lock.list',
  about: 'Locks that are defined, held or waited for, by name, a page at a time.',
  allowed: 'watcher',
  params: z.strictObject({
    prefix: Name.optional(),
    cursor: Cursor.optional(),
    limit: z.int().min(1).max(1000).default(100),
  }),
  result: z.object({ locks: z.array(Lock), cursor: z.string().optional() }),
  fails: [],
  run: async ({ prefix = '', cursor = '', limit }, { namespace, config }) => {
    const rows = await namespace.read<LockRow[]>(script, [prefix, cursor, Math.min(limit, 200), shownMax]);
    const locks: Lock[] = [];
    let bytes = 0;
    for (const [i, row] of rows.entries()) {
      const lock = fitting(lockOf(row), config.gateway.lineBytes);
      bytes += Buffer.byteLength(JSON.stringify(lock)) + 1;
      // The page must fit into a line; what is left out comes with the next one.
      if (bytes > config.gateway.lineBytes - 4096 && locks.length > 0)
        return { locks, cursor: rows[i - 1]![0] as string };
      locks.push(lock);
    }
    return rows.length < Math.min(limit, 200) ? { locks } : { locks, cursor: rows.at(-1)![0] as string };
  },
});
