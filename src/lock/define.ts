import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Ms, MsOrZero } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { Definition, isPath, LockName, Permits, taken } from './model.js';

const args = ['display', 'name', 'capacity', 'lockDelayMs', 'maxHoldMs', 'change'];
const script = lua(import.meta.url, './define.lua', args);

export const define = defineCommand({
  name: 'lock.define',
  about: 'Say what holds for a lock; with a capacity it is a semaphore. Other values than now need change:true.',
  allowed: 'session',
  params: z.strictObject({
    name: LockName,
    capacity: Permits.optional(),
    lockDelayMs: MsOrZero.default(0),
    maxHoldMs: Ms.optional(),
    change: z.boolean().default(false),
  }),
  result: Definition,
  fails: ['CONFLICT', 'INVALID'],
  run: async ({ name, capacity, lockDelayMs, maxHoldMs, change }, { namespace, locks }) => {
    if (capacity !== undefined && isPath(name)) {
      throw new Refusal('INVALID', 'a path is a read/write lock and has no capacity');
    }
    const { name: display, node } = taken(name);
    const [left] = await namespace.call<[number]>(script, [
      display,
      node,
      capacity ?? 0,
      lockDelayMs,
      maxHoldMs ?? 0,
      change ? 1 : 0,
    ]);
    if (left === 1) locks.goOn();
    const definition = { name: display, lockDelayMs };
    return { ...definition, ...(capacity ? { capacity } : {}), ...(maxHoldMs ? { maxHoldMs } : {}) };
  },
});
