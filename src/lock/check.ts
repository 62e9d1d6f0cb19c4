import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Fence } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { LockName, taken } from './model.js';

const script = lua(import.meta.url, './check.lua', ['name', 'fence']);

export const check = defineCommand({
  name: 'lock.check',
  about: 'For the side that a lock guards: does this fence hold the lock now, and which fence was given last.',
  allowed: 'watcher',
  params: z.strictObject({ name: LockName, fence: Fence }),
  result: z.object({ valid: z.boolean(), current: z.int() }),
  fails: [],
  run: async ({ name, fence }, { namespace }) => {
    const [valid, current] = await namespace.read<[number, string]>(script, [taken(name).node, fence]);
    return { valid: valid === 1, current: Number(current) };
  },
});
