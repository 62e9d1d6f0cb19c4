import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Instant, Ms, Priority, TaskId } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { readTask } from './get.js';
import { instantMs } from './items.js';
import { Task } from './model.js';

const script = lua(import.meta.url, './update.lua', ['id', 'priority', 'deadlineMs', 'startByMs', 'runAt']);

export const update = defineCommand({
  name: 'queue.update',
  about: 'Change priority, deadline, startBy or runAt of a task that has not ended.',
  allowed: 'session',
  params: z.strictObject({
    task: TaskId,
    priority: Priority.optional(),
    deadlineMs: Ms.optional(),
    startByMs: Ms.optional(),
    runAt: Instant.optional(),
  }),
  result: Task,
  fails: ['NOT_FOUND', 'CONFLICT'],
  run: async ({ task, priority, deadlineMs, startByMs, runAt }, context) => {
    const args = [priority ?? '', deadlineMs ?? '', startByMs ?? '', runAt === undefined ? '' : instantMs(runAt)];
    // Nothing to change is no change, and no event.
    if (args.some((arg) => arg !== '')) await context.namespace.call<string>(script, [task, ...args]);
    return readTask(task, context);
  },
});
