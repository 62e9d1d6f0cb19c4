import { z } from 'zod';
import { itemRefusal } from '../protocol/batch.js';
import { checkBytes } from '../protocol/bytes.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Json, TaskId } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './progress.lua', ['id', 'fence', 'caller', 'binding', 'progress', 'saved']);

export const progress = defineCommand({
  name: 'queue.progress',
  about: 'Report progress of a running task; renews its own lease and keeps `saved` for the next attempt.',
  allowed: 'session',
  params: z.strictObject({ task: TaskId, fence: Fence, progress: Json, saved: Json.optional() }),
  result: z.object({}),
  fails: ['STALE_FENCE', 'NOT_FOUND', 'TOO_LARGE'],
  run: async ({ task, fence, progress, saved = '' }, { namespace, session, config }) => {
    checkBytes('progress', progress, config.queue.progressBytes);
    checkBytes('saved', saved, config.queue.progressBytes);
    const [text] = await namespace.call<[string]>(script, [task, fence, session.id, session.binding, progress, saved]);
    if (text.startsWith('!')) throw itemRefusal(text);
    return {};
  },
});
