import { type Command, Option } from 'commander';
import type { Signalbox } from '../client/index.js';
import { states } from '../queue/model.js';
import { type ConnectionFlags, connected, withClient } from './connection.js';
import { exit, type Outcome } from './exit.js';
import { durationMs, whole } from './input.js';
import { ageOf, print, printJson, printTable } from './output.js';

type State = (typeof states)[number];
export type Task = Awaited<ReturnType<Signalbox['queue']['list']>>['tasks'][number];

interface ListFlags extends ConnectionFlags {
  readonly state: State;
  readonly kind?: string;
  readonly tenant?: string;
  readonly limit: number;
}

interface CancelFlags extends ConnectionFlags {
  readonly reason?: string;
  readonly grace?: number;
}

export function tasksCommand(program: Command, outcome: Outcome): void {
  const tasks = program.command('tasks').description('look at tasks, or cancel one');
  connected(tasks.command('ls', { isDefault: true }))
    .description('the tasks of a queue in one state (also without `ls`)')
    .argument('<queue>')
    .addOption(new Option('--state <state>', 'their state').choices(states).default('ready'))
    .option('--kind <kind>', 'only of this kind')
    .option('--tenant <tenant>', 'only of this tenant')
    .option('--limit <number>', 'at most so many', whole(1, 1_000_000), 100)
    .action(async (queue: string, flags: ListFlags) => {
      await withClient(flags, { session: false }, (client) => list(client, queue, flags));
    });
  connected(tasks.command('get'))
    .description('one task, whole')
    .argument('<task>')
    .action(async (task: string, flags: ConnectionFlags) => {
      const found = await withClient(flags, { session: false }, (client) => client.queue.get({ task }));
      await print(JSON.stringify(found, null, flags.json ? 0 : 2));
    });
  connected(tasks.command('cancel'))
    .description('cancel a task: at once while it waits; a running one is asked to stop')
    .argument('<task>')
    .option('--reason <text>', 'why; its worker is told')
    .option('--grace <duration>', 'how long a running one may take to stop', durationMs)
    .action(async (task: string, flags: CancelFlags) => {
      outcome.code = await cancel(task, flags);
    });
}

async function list(client: Signalbox, queue: string, flags: ListFlags): Promise<void> {
  const { state, kind, tenant, limit, json } = flags;
  const filter = { ...(kind === undefined ? {} : { kind }), ...(tenant === undefined ? {} : { tenant }) };
  const tasks = await pageThrough(client, { queue, state, ...filter }, limit);
  if (json) await printJson({ tasks });
  else await printTasks(tasks, `no tasks in ${queue} are ${state}`);
}

export async function pageThrough(
  client: Signalbox,
  params: { queue: string; state: State; kind?: string; tenant?: string },
  limit: number,
): Promise<Task[]> {
  const tasks: Task[] = [];
  let cursor: string | undefined;
  do {
    const rest = { limit: Math.min(1000, limit - tasks.length), ...(cursor === undefined ? {} : { cursor }) };
    const page = await client.queue.list({ ...params, ...rest });
    tasks.push(...page.tasks);
    cursor = page.cursor;
  } while (cursor !== undefined && tasks.length < limit);
  return tasks;
}

export async function printTasks(tasks: readonly Task[], none: string): Promise<void> {
  if (tasks.length === 0) return print(none);
  const now = Date.now();
  await printTable(
    ['TASK', 'STATE', 'KIND', 'TENANT', 'PRIORITY', 'ATTEMPT', 'AGE', 'HOLDER', 'ERROR'],
    tasks.map((task) => [
      task.task,
      task.state,
      task.kind,
      task.tenant,
      task.priority,
      `${task.attempt}/${task.maxAttempts}`,
      ageOf(Math.max(0, now - Date.parse(task.enqueuedAt))),
      task.holder?.agent,
      (task.error as { message?: string } | undefined)?.message?.slice(0, 80),
    ]),
  );
}

async function cancel(task: string, flags: CancelFlags): Promise<number> {
  const { reason, grace: graceMs, json } = flags;
  const params = { task, ...(reason === undefined ? {} : { reason }), ...(graceMs === undefined ? {} : { graceMs }) };
  const { state } = await withClient(flags, { session: true }, (client) => client.queue.cancel(params));
  if (json) await printJson({ task, state });
  else if (state === 'active') await print(`${task} runs; its worker was told to stop`);
  else await print(`${task} is ${state}`);
  return state === 'cancelled' || state === 'active' ? exit.ok : exit.failure;
}
