import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Raw } from '../protocol/raw-json.js';
import { Actual, ReservationId } from './model.js';

export const settle = defineCommand({
  name: 'limit.settle',
  about: 'Say what a reservation really took: less comes back, more is a debt; a waiting one is cancelled.',
  allowed: 'session',
  params: z.strictObject({ reservation: ReservationId, actual: Actual.optional() }),
  result: z.object({
    remaining: z.record(z.string(), z.int()),
    /** Per dimension that is overdrawn: by how much. */
    debt: z.record(z.string(), z.int()).optional(),
  }),
  fails: ['NOT_FOUND', 'INVALID', 'SESSION_LOST'],
  run: async ({ reservation, actual = {} }, { limits, session }) => {
    if (Object.hasOwn(actual, 'concurrency')) {
      throw new Refusal('INVALID', 'concurrency comes back whole; leave it out of actual');
    }
    const [, remaining, debt] = await limits.settle(session, reservation, actual);
    return new Raw(`{"remaining":${remaining}${debt === '' ? '' : `,"debt":${debt}`}}`);
  },
});
