import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Grant } from './model.js';

const State = z.enum(['released', 'cancelled', 'alreadyReleased']);

export const release = defineCommand({
  name: 'lock.release',
  about: 'Give a grant back, or stop waiting for it; whoever is next has it in the same step.',
  allowed: 'session',
  params: z.strictObject({ grant: Grant }),
  result: z.object({ state: State }),
  fails: ['NOT_OWNER'],
  run: async ({ grant }, { locks, session }) => {
    const state = await locks.release(session, grant);
    if (state === 'notOwner') throw new Refusal('NOT_OWNER');
    return { state: state as z.infer<typeof State> };
  },
});
