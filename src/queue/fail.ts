import { z } from 'zod';
import { batchTexts, itemError, itemRefusal } from '../protocol/batch.js';
import { checkBytes } from '../protocol/bytes.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Json, type JsonText, MsOrZero, TaskId, utf8Bytes } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import type { Failure } from './joins.js';
import { ItemError, State } from './model.js';

const TaskError = z.strictObject({ message: z.string(), code: z.string().optional(), data: Json.optional() });

export const fail = defineCommand({
  name: 'queue.fail',
  about: 'Report failed attempts: retried after a back-off, or dead when no attempt is left or `retry` is false.',
  allowed: 'session',
  params: z.strictObject({
    tasks: z
      .array(
        z.strictObject({
          task: TaskId,
          fence: Fence,
          error: TaskError,
          retry: z.boolean().default(true),
          afterMs: MsOrZero.optional(),
        }),
      )
      .min(1)
      .max(1000),
  }),
  result: z.object({ tasks: z.array(z.union([z.object({ state: State, nextAt: z.string().optional() }), ItemError])) }),
  fails: ['STALE_FENCE', 'NOT_FOUND', 'TOO_LARGE'],
  run: async ({ tasks }, { queues, session, config }) => {
    const texts = await batchTexts(
      tasks,
      ({ task, fence, error, retry, afterMs }): Failure => {
        const text = errorText(error.message, error.code, error.data);
        checkBytes('error', text, config.queue.progressBytes);
        const speaker = { session: session.id, binding: session.binding };
        return { ...speaker, task, fence, error: text, cut: cutError(text, error), retry, afterMs };
      },
      (items) => queues.fail(items),
      failedText,
    );
    return new Raw(`{"tasks":[${texts.join(',')}]}`);
  },
});

function errorText(message: string, code: string | undefined, data: JsonText | undefined): string {
  return `{"message":${JSON.stringify(message)}${code === undefined ? '' : `,"code":${JSON.stringify(code)}`}${data === undefined ? '' : `,"data":${data}`}}`;
}

/** History keeps 1 KiB of an error: the code and the beginning of the message tell more than the data. */
function cutError(text: string, error: { message: string; code?: string | undefined }): string {
  if (text.length <= 340 || utf8Bytes(text) <= 1024) return text;
  const code = error.code?.slice(0, 60);
  for (let length = 900; ; length = Math.floor(length / 2)) {
    const message = Array.from(error.message.slice(0, length)).join('').toWellFormed();
    const cut = errorText(message, code, undefined);
    if (utf8Bytes(cut) <= 1024) return cut;
  }
}

function failedText(text: string): string {
  if (text.startsWith('!')) return JSON.stringify(itemError(itemRefusal(text)));
  const [state, nextAt] = text.split(' ');
  return `{"state":"${state}"${nextAt ? `,"nextAt":"${new Date(Number(nextAt)).toISOString()}"` : ''}}`;
}
