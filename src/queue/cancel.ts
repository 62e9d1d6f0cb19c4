import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { MsOrZero, Reason, TaskId } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { State } from './model.js';

const script = lua(import.meta.url, './cancel.lua', ['id', 'reason', 'graceMs']);

export const cancel = defineCommand({
  name: 'queue.cancel',
  about: 'Cancel a task: at once while it waits; a running one is asked to stop and fenced out after the grace.',
  allowed: 'session',
  params: z.strictObject({ task: TaskId, reason: Reason.optional(), graceMs: MsOrZero.optional() }),
  result: z.object({ state: State }),
  fails: ['NOT_FOUND'],
  run: async ({ task, reason, graceMs }, { namespace, config }) => {
    const text = reason === undefined ? '' : JSON.stringify(reason);
    const state = await namespace.call<State>(script, [task, text, graceMs ?? config.queue.cancelGraceMs]);
    return { state };
  },
});
