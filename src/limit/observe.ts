import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Ms, Name } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { AmountOrZero, LimitName } from './model.js';

const script = lua(import.meta.url, './observe.lua', [
  'caller',
  'binding',
  'name',
  'dimension',
  'remaining',
  'resetMs',
]);

export const observe = defineCommand({
  name: 'limit.observe',
  about: 'Say what a provider said it has left, and for how long that holds; it can only tighten.',
  allowed: 'session',
  params: z.strictObject({ name: LimitName, dimension: Name, remaining: AmountOrZero, resetMs: Ms }),
  result: z.object({ remaining: z.int() }),
  fails: ['NOT_FOUND', 'INVALID', 'SESSION_LOST'],
  run: async ({ name, dimension, remaining, resetMs }, { namespace, session, limits }) => {
    const args = [session.id, session.binding, name, dimension, remaining, resetMs];
    const [left, soonest] = await namespace.call<[string, string]>(script, args);
    limits.look(soonest);
    return { remaining: Number(left) };
  },
});
