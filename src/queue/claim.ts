import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { RevocableRaw } from '../protocol/frame.js';
import { Ms, MsOrZero, Queue } from '../protocol/primitives.js';
import { WorkTask } from './model.js';
import { Kinds } from './work.js';

export const claim = defineCommand({
  name: 'queue.claim',
  about: 'Take up to `count` tasks in the reply, waiting up to waitMs for the first.',
  allowed: 'session',
  params: z.strictObject({
    queue: Queue,
    count: z.int().min(1).max(100).default(1),
    kinds: Kinds.optional(),
    waitMs: MsOrZero.default(0),
    leaseMs: Ms.optional(),
  }),
  result: z.object({ tasks: z.array(WorkTask) }),
  fails: [],
  run: async ({ queue, count, kinds, waitMs, leaseMs }, { connection: { workers } }) => {
    const tasks = await workers.claim({ queue, kinds: kinds && [...new Set(kinds)], leaseMs, count, waitMs });
    // A reply that was not written is refunded; one that was written is not.
    return new RevocableRaw(`{"tasks":[${tasks.map((task) => task.line).join(',')}]}`, () => workers.giveBack(tasks));
  },
});
