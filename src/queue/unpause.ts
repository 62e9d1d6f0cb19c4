import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Queue } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './unpause.lua', ['queue']);

export const unpause = defineCommand({
  name: 'queue.unpause',
  about: 'End a pause.',
  allowed: 'session',
  params: z.strictObject({ queue: Queue }),
  result: z.object({ paused: z.boolean() }),
  fails: [],
  run: async ({ queue }, { namespace }) => {
    await namespace.call(script, [queue]);
    return { paused: false };
  },
});
