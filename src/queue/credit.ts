import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Name } from '../protocol/primitives.js';
import { Credit } from './work.js';

export const credit = defineCommand({
  name: 'queue.credit',
  about: "Change a worker's ceiling on unfinished tasks; 0 pauses it.",
  allowed: 'session',
  params: z.strictObject({ worker: Name, credit: Credit }),
  result: z.object({ credit: z.int() }),
  fails: ['NOT_FOUND'],
  run: async ({ worker, credit }, { connection }) => {
    if (connection.workers.setCredit(worker, credit)) return { credit };
    throw new Refusal('NOT_FOUND', `this connection has declared no worker ${worker}; call queue.work first`);
  },
});
