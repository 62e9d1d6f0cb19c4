import { z } from 'zod';
import { newId } from '../lib/ids.js';
import { defineCommand } from '../protocol/command.js';
import { Ms, MsOrZero } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { Cost, LimitName, ReservationId } from './model.js';

const Remaining = z.record(z.string(), z.int());

export const reserve = defineCommand({
  name: 'limit.reserve',
  about: 'Take an amount of each dimension in one step, or wait for it in a fair queue; a refusal charges nothing.',
  allowed: 'session',
  params: z.strictObject({
    name: LimitName,
    cost: Cost,
    reservation: ReservationId.optional(),
    waitMs: MsOrZero.default(0),
    leaseMs: Ms.optional(),
    /** Beside other agents that wait: twice the weight, twice the share. */
    weight: z.number().min(0.001).max(1000).default(1),
  }),
  result: z.union([
    z.object({
      reservation: z.string(),
      state: z.literal('granted'),
      fence: z.int(),
      validMs: z.int(),
      remaining: Remaining,
      resetMs: z.int(),
      /** Granted by this daemon from its share: Redis is away. */
      degraded: z.boolean().optional(),
    }),
    z.object({
      reservation: z.string(),
      state: z.literal('waiting'),
      place: z.int(),
      remaining: Remaining,
      resetMs: z.int(),
    }),
  ]),
  fails: ['LIMITED', 'NEVER_FITS', 'NOT_FOUND', 'INVALID', 'CONFLICT', 'SESSION_LOST'],
  run: async ({ name, cost, reservation = newId(), waitMs, leaseMs, weight }, { limits, session }) => {
    const said = await limits.reserve(session, { name, cost, reservation, waitMs, leaseMs, weight });
    const [state, first, validMs, remaining, resetMs, degraded] = said;
    const own = state === 'granted' ? `"fence":${first},"validMs":${validMs}` : `"place":${first}`;
    const head = `{"reservation":${JSON.stringify(reservation)},"state":"${state}",${own}`;
    return new Raw(`${head},"remaining":${remaining},"resetMs":${resetMs}${degraded ? ',"degraded":true' : ''}}`);
  },
});
