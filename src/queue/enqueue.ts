import { z } from 'zod';
import { batchTexts, itemError, itemRefusal } from '../protocol/batch.js';
import { defineCommand } from '../protocol/command.js';
import { Queue } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { type PutItem, putItem } from './items.js';
import { ItemError, NewTask, Pressure, State } from './model.js';
import type { PutResult, QueuePressure } from './put-result.js';

export const Enqueued = z.object({ task: z.string(), state: State, deduplicated: z.boolean().optional() });

export const enqueue = defineCommand({
  name: 'queue.enqueue',
  about: 'Put tasks into a queue. The same task id or key with the same payload answers the task that is there.',
  allowed: 'session',
  params: z.strictObject({ queue: Queue, tasks: z.array(NewTask).min(1).max(1000) }),
  result: z.object({ tasks: z.array(z.union([Enqueued, ItemError])), pressure: Pressure }),
  fails: ['OVERLOADED', 'TOO_LARGE', 'INVALID', 'CONFLICT', 'KEY_CONFLICT', 'LIMIT'],
  run: async ({ queue, tasks }, { queues, session, config, producers, connection }) => {
    const { tells } = producers;
    let pressure: QueuePressure = { level: 0 };
    const texts = await batchTexts(
      tasks,
      (task) => putItem(queue, task, session.tenant, config.queue),
      (items) => queues.enqueue(items),
      (result, item) => {
        pressure = result.pressure;
        return enqueuedText(item, result);
      },
    );
    const { level, delayMs, told } = pressure;
    if (told) producers.seen(queue, connection, tells);
    const delay = delayMs === undefined ? '' : `,"delayMs":${delayMs}`;
    return new Raw(`{"tasks":[${texts.join(',')}],"pressure":{"level":${level}${delay}}}`);
  },
});

/** The reply of one item, as JSON text: this is the hottest reply there is. */
export function enqueuedText(item: PutItem, { text }: PutResult): string {
  if (text.startsWith('!')) return JSON.stringify(itemError(itemRefusal(text)));
  if (text.startsWith('=')) {
    const space = text.indexOf(' ');
    return `{"task":${JSON.stringify(text.slice(space + 1))},"state":"${text.slice(1, space)}","deduplicated":true}`;
  }
  return `{"task":${JSON.stringify(item.task)},"state":"${text}"}`;
}
