import type { Command } from 'commander';
import { Refusal, type Signalbox } from '../client/index.js';
import { type ConnectionFlags, connected, withClient } from './connection.js';
import { exit, type Outcome } from './exit.js';
import { collect, whole } from './input.js';
import { counted, print, printJson, say } from './output.js';
import { pageThrough, printTasks } from './tasks.js';

interface Flags extends ConnectionFlags {
  readonly task?: string[];
  readonly kind?: string;
  readonly tenant?: string;
}

/** The dead letter: tasks that ran out of attempts, and tasks that came too late. */
const deadStates = ['dead', 'expired'] as const;

export function deadCommand(program: Command, outcome: Outcome): void {
  const dead = program.command('dead').description('the dead letter of a queue: tasks that are dead or expired');
  connected(dead.command('ls'))
    .description('list it')
    .argument('<queue>')
    .option('--limit <number>', 'at most so many', whole(1, 1_000_000), 100)
    .action(async (queue: string, flags: ConnectionFlags & { limit: number }) => {
      const tasks = await withClient(flags, { session: false }, async (client) => {
        const found = [];
        for (const state of deadStates) {
          if (found.length < flags.limit)
            found.push(...(await pageThrough(client, { queue, state }, flags.limit - found.length)));
        }
        return found;
      });
      if (flags.json) await printJson({ tasks });
      else await printTasks(tasks, `the dead letter of ${queue} is empty`);
    });
  const bulk = (verb: 'redrive' | 'purge', about: string): void => {
    connected(dead.command(verb))
      .description(about)
      .argument('<queue>')
      .option('--task <id>', 'only this task; may be repeated', collect)
      .option('--kind <kind>', 'only of this kind')
      .option('--tenant <tenant>', 'only of this tenant')
      .action(async (queue: string, flags: Flags) => {
        outcome.code = await withClient(flags, { session: true }, (client) => sweep(client, verb, queue, flags));
      });
  };
  bulk('redrive', 'bring its tasks back, with their attempts at 0');
  bulk('purge', 'remove its tasks for good');
}

async function sweep(client: Signalbox, verb: 'redrive' | 'purge', queue: string, flags: Flags): Promise<number> {
  const { count, failed } = flags.task
    ? await byId(client, verb, queue, flags.task)
    : await byFilter(client, verb, queue, flags);
  const done = verb === 'redrive' ? 'brought back' : 'removed';
  if (flags.json) await printJson({ count, ...(failed.length > 0 ? { failed } : {}) });
  else await print(`${counted(count, 'task')} ${done}`);
  if (!flags.json) for (const { task, error } of failed) say(`${task}: ${error.code}: ${error.message}`);
  return failed.length > 0 ? exit.failure : exit.ok;
}

interface Swept {
  readonly count: number;
  readonly failed: readonly {
    readonly task: string;
    readonly error: { readonly code: string; readonly message: string };
  }[];
}

async function byFilter(client: Signalbox, verb: 'redrive' | 'purge', queue: string, flags: Flags): Promise<Swept> {
  const { kind, tenant } = flags;
  const filter = { ...(kind === undefined ? {} : { kind }), ...(tenant === undefined ? {} : { tenant }) };
  let count = 0;
  for (const state of deadStates) {
    let cursor: string | undefined;
    do {
      const page = await client.queue[verb]({ queue, state, filter, ...(cursor === undefined ? {} : { cursor }) });
      count += page.count;
      cursor = page.cursor;
    } while (cursor !== undefined);
  }
  return { count, failed: [] };
}

/** A purge by id would take a task in any waiting state: only what is in the dead letter is meant here. */
async function byId(
  client: Signalbox,
  verb: 'redrive' | 'purge',
  queue: string,
  ids: readonly string[],
): Promise<Swept> {
  const tasks: string[] = [];
  const failed: Swept['failed'][number][] = [];
  for (const task of new Set(ids)) {
    const error = await notDead(client, queue, task);
    if (error) failed.push({ task, error });
    else tasks.push(task);
  }
  if (tasks.length === 0) return { count: 0, failed };
  const answer = await client.queue[verb]({ queue, tasks });
  answer.tasks?.forEach((item, i) => {
    if ('error' in item) failed.push({ task: tasks[i]!, error: item.error });
  });
  return { count: answer.count, failed };
}

async function notDead(client: Signalbox, queue: string, task: string) {
  try {
    const found = await client.queue.get({ task });
    if (found.queue !== queue) return { code: 'NOT_FOUND', message: `it is in queue ${found.queue}` };
    const isDead = deadStates.some((state) => state === found.state);
    return isDead ? undefined : { code: 'CONFLICT', message: `it is ${found.state}, not in the dead letter` };
  } catch (error) {
    if (error instanceof Refusal && error.code === 'NOT_FOUND') return { code: error.code, message: error.message };
    throw error;
  }
}
