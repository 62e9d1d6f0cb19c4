import { z } from 'zod';
import type { Context } from '../context.js';
import { defineCommand } from '../protocol/command.js';
import { TaskId } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { lua } from '../redis/script.js';
import { Task } from './model.js';
import { taskText } from './record.js';

const script = lua(import.meta.url, './get.lua', ['id']);

export async function readTask(
  task: string,
  { namespace }: Pick<Context, 'namespace'>,
): Promise<Raw<z.input<typeof Task>>> {
  const [head, run, attempts] = await namespace.read<[string, string[] | '', string]>(script, [task]);
  return new Raw(taskText(task, head, run, attempts, true));
}

export const get = defineCommand({
  name: 'queue.get',
  about: 'Show one task, whole.',
  allowed: 'watcher',
  params: z.strictObject({ task: TaskId }),
  result: Task,
  fails: ['NOT_FOUND'],
  run: ({ task }, context) => readTask(task, context),
});
