import { z } from 'zod';
import { batchTexts } from '../protocol/batch.js';
import { checkBytes } from '../protocol/bytes.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Json, MsOrZero, Reason, TaskId } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { doneText } from './complete.js';
import type { Release } from './joins.js';
import { ItemError, State } from './model.js';

export const release = defineCommand({
  name: 'queue.release',
  about: 'Hand tasks back with the attempt refunded, at most 10 times a task.',
  allowed: 'session',
  params: z.strictObject({
    tasks: z
      .array(
        z.strictObject({
          task: TaskId,
          fence: Fence,
          reason: Reason,
          afterMs: MsOrZero.optional(),
          saved: Json.optional(),
        }),
      )
      .min(1)
      .max(1000),
  }),
  result: z.object({ tasks: z.array(z.union([z.object({ state: State }), ItemError])) }),
  fails: ['STALE_FENCE', 'NOT_FOUND', 'TOO_LARGE'],
  run: async ({ tasks }, { queues, session, config }) => {
    const texts = await batchTexts(
      tasks,
      ({ task, fence, reason, afterMs, saved = '' }): Release => {
        checkBytes('saved', saved, config.queue.progressBytes);
        // Two words of the reason are outcomes of their own; every other is the worker's to say.
        const outcome = reason === 'undelivered' || reason === 'drained' ? reason : 'released';
        return { session: session.id, binding: session.binding, task, fence, reason: outcome, afterMs, saved };
      },
      (items) => queues.release(items),
      doneText,
    );
    return new Raw(`{"tasks":[${texts.join(',')}]}`);
  },
});
