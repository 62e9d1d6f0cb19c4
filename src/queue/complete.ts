import { z } from 'zod';
import type { Context } from '../context.js';
import { Refusal } from '../errors.js';
import { batchTexts, itemError, itemRefusal } from '../protocol/batch.js';
import { checkBytes } from '../protocol/bytes.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Json, Queue, TaskId } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { Enqueued, enqueuedText } from './enqueue.js';
import { type PutItem, putItem } from './items.js';
import type { Completion } from './joins.js';
import { ItemError, NewTask, State } from './model.js';

const Done = z.object({ state: State });
const NamedTask = NewTask.extend({ task: TaskId });

export const complete = defineCommand({
  name: 'queue.complete',
  about: 'Hand in results; with `enqueue` also new tasks in the same step, all or nothing.',
  allowed: 'session',
  params: z.strictObject({
    tasks: z
      .array(z.strictObject({ task: TaskId, fence: Fence, result: Json.optional() }))
      .min(1)
      .max(1000),
    enqueue: z
      .array(z.strictObject({ queue: Queue, tasks: z.array(NamedTask).min(1).max(1000) }))
      .max(200)
      .optional(),
  }),
  result: z.object({
    tasks: z.array(z.union([Done, ItemError])),
    enqueued: z.array(z.object({ tasks: z.array(z.union([Enqueued, ItemError])) })).optional(),
  }),
  fails: ['STALE_FENCE', 'NOT_FOUND', 'TOO_LARGE', 'CONFLICT', 'LIMIT', 'OVERLOADED', 'KEY_CONFLICT', 'INVALID'],
  run: async ({ tasks, enqueue }, context) => {
    const { queues, session, config } = context;
    const completion = ({ task, fence, result }: (typeof tasks)[number]): Completion => {
      checkBytes('result', result, config.queue.resultBytes);
      return { session: session.id, binding: session.binding, task, fence, result: result ?? '' };
    };
    if (enqueue)
      return completeAndEnqueue(
        tasks.map((task) => attempt(() => completion(task))),
        enqueue,
        context,
      );
    const texts = await batchTexts(tasks, completion, (items) => queues.complete(items), doneText);
    return new Raw(`{"tasks":[${texts.join(',')}]}`);
  },
});

function attempt<T>(make: () => T): T | Refusal {
  try {
    return make();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

export function doneText(text: string): string {
  return text.startsWith('!') ? JSON.stringify(itemError(itemRefusal(text))) : `{"state":"${text}"}`;
}

type Follow = readonly { queue: string; tasks: readonly z.output<typeof NamedTask>[] }[];

async function completeAndEnqueue(
  completions: (Completion | Refusal)[],
  follow: Follow,
  { queues, session, config }: Context,
) {
  const fresh = follow.flatMap(({ queue, tasks }) => tasks.map((task) => ({ queue, task })));
  if (completions.length + fresh.length > 200) {
    throw new Refusal(
      'LIMIT',
      `${completions.length + fresh.length} completions and new tasks in one step; at most 200 are taken`,
      {
        details: { max: 200 },
      },
    );
  }
  const puts = fresh.map(({ queue, task }) => attempt(() => putItem(queue, task, session.tenant, config.queue)));
  const refusals = [...completions, ...puts].some((item) => item instanceof Refusal);
  if (refusals) {
    const withheld = new Refusal('CONFLICT', 'another item of the request was refused; nothing was done');
    const text = (item: unknown): string => JSON.stringify(itemError(item instanceof Refusal ? item : withheld));
    return bothText(completions.map(text), puts.map(text), follow);
  }
  const items = puts as PutItem[];
  const reply = await queues.completeAndEnqueue(completions as Completion[], items);
  const made = reply.puts.map((result, i) => enqueuedText(items[i]!, result));
  return bothText(reply.completions.map(doneText), made, follow);
}

function bothText(done: readonly string[], made: readonly string[], follow: Follow): Raw<never> {
  let at = 0;
  const groups = follow.map(({ tasks }) => {
    at += tasks.length;
    return `{"tasks":[${made.slice(at - tasks.length, at).join(',')}]}`;
  });
  return new Raw(`{"tasks":[${done.join(',')}],"enqueued":[${groups.join(',')}]}`);
}
