import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { MsOrZero, Name } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { LimitName } from './model.js';

const script = lua(import.meta.url, './penalize.lua', ['caller', 'binding', 'name', 'afterMs', 'code', 'rampMs']);

export const penalize = defineCommand({
  name: 'limit.penalize',
  about: 'Somebody was told to slow down: nobody is granted anything for afterMs, then one tries, then a ramp.',
  allowed: 'session',
  params: z.strictObject({ name: LimitName, afterMs: MsOrZero, code: Name.optional() }),
  result: z.object({ blockedUntilAt: z.string() }),
  fails: ['NOT_FOUND', 'SESSION_LOST'],
  run: async ({ name, afterMs, code = '' }, { namespace, session, limits, config }) => {
    const args = [session.id, session.binding, name, afterMs, code, config.limit.rampMs];
    const [until, soonest] = await namespace.call<[string, string]>(script, args);
    limits.look(soonest);
    return { blockedUntilAt: new Date(Number(until)).toISOString() };
  },
});
