import { z } from 'zod';
import type { Context } from '../context.js';
import { defineCommand } from '../protocol/command.js';
import { lua } from '../redis/script.js';
import { fitting, Lock, LockName, type LockRow, lockOf, taken } from './model.js';

const script = lua(import.meta.url, './get.lua', ['name', 'most']);
/** Holders, and waiters, that are shown. */
const shownMax = 100;

export async function readLock(
  name: string,
  { namespace, config }: Pick<Context, 'namespace' | 'config'>,
): Promise<Lock> {
  const { name: shown, node } = taken(name);
  const row = await namespace.read<LockRow>(script, [node, shownMax]);
  return fitting(lockOf(row, shown), config.gateway.lineBytes);
}

export const get = defineCommand({
  name: 'lock.get',
  about: 'Show one lock: its definition, who holds it and why, who waits.',
  allowed: 'watcher',
  params: z.strictObject({ name: LockName }),
  result: Lock,
  fails: [],
  run: ({ name }, context) => readLock(name, context),
});
