import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Ms, Queue } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './pause.lua', ['queue', 'untilMs']);

export const pause = defineCommand({
  name: 'queue.pause',
  about: 'Hand nothing out from this queue, for `untilMs` or until unpaused; after the answer no task starts.',
  allowed: 'session',
  params: z.strictObject({ queue: Queue, untilMs: Ms.optional() }),
  result: z.object({ paused: z.boolean() }),
  fails: [],
  run: async ({ queue, untilMs }, { namespace }) => {
    await namespace.call(script, [queue, untilMs ?? '']);
    return { paused: true };
  },
});
