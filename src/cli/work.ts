import type { Command } from 'commander';
import type { Closed, Signalbox, Task } from '../client/index.js';
import { runChild } from './child.js';
import { type ConnectionFlags, connected, daemonUrl, open, tellStatus } from './connection.js';
import { mustBeThere } from './executable.js';
import { exit, type Outcome } from './exit.js';
import { durationMs, whole } from './input.js';
import { printJson, say } from './output.js';
import { onStopSignals } from './signals.js';

interface Flags extends ConnectionFlags {
  readonly concurrency: number;
  readonly kinds?: string;
  readonly lease?: number;
  readonly stop: number;
  readonly killAfter: number;
  readonly rest: number;
  readonly count?: number;
}

export function workCommand(program: Command, outcome: Outcome): void {
  connected(program.command('work'))
    .description('run a command for each task of a queue: payload on stdin, result from stdout')
    .argument('<queue>')
    .argument('<command...>', 'behind --; exit code 0 completes the task, 75 hands it back, all else fails it')
    .option('--concurrency <number>', 'how many tasks at once', whole(1, 1000), 1)
    .option('--kinds <list>', 'only tasks of these kinds, separated by commas')
    .option('--lease <duration>', 'a lease for each task, renewed while its command runs', durationMs)
    .option('--stop <duration>', 'how long running commands may go on after SIGTERM or Ctrl-C', durationMs, 30_000)
    .option('--kill-after <duration>', 'between SIGTERM and SIGKILL to a command whose task is gone', durationMs, 4000)
    .option('--rest <duration>', 'how long a task that was handed back (75) is not given out', durationMs, 1000)
    .option('--count <number>', 'end after so many tasks', whole(1, Number.MAX_SAFE_INTEGER))
    .action(async (queue: string, [command, ...args]: string[], flags: Flags) => {
      outcome.code = await work(queue, command!, args, flags);
    });
}

async function work(queue: string, command: string, args: string[], flags: Flags): Promise<number> {
  const { concurrency, lease, stop: limitMs, killAfter: killAfterMs, rest: restMs } = flags;
  mustBeThere(command);
  const client = await open(flags, { session: true, onStatus: flags.json ? () => {} : tellStatus });
  const env = { ...process.env, SIGNALBOX_URL: daemonUrl(flags).href };
  const running = new Set<Promise<unknown>>();
  let left = flags.count ?? Number.POSITIVE_INFINITY;
  const stop = (): void => void client.close({ limitMs });
  const options = {
    concurrency: Math.min(concurrency, left),
    ...(flags.kinds === undefined ? {} : { kinds: flags.kinds.split(',').map((kind) => kind.trim()) }),
    ...(lease === undefined ? {} : { leaseMs: lease }),
  };
  const worker = client.work(queue, options, async (task, { signal }) => {
    const run = runChild(task, signal, { command, args, env, killAfterMs, restMs });
    running.add(run);
    try {
      return await told(task, run, flags);
    } finally {
      running.delete(run);
      if (--left <= 0) stop();
    }
  });
  const unhook = onStopSignals(stop, () => process.exit(exit.failure));
  try {
    await worker.ready;
    if (!flags.json) say(`working on ${queue}, ${concurrency} at once; Ctrl-C lets what runs finish`);
    return await ended(client);
  } finally {
    unhook();
    await client.close({ limitMs });
    // Their tasks were handed back; they must not live on without us.
    await Promise.allSettled(running);
  }
}

/** One line a task. */
async function told(task: Task, run: Promise<unknown>, { json }: Flags): Promise<unknown> {
  const since = performance.now();
  const tell = (outcome: string, message?: string): Promise<void> | void => {
    const ms = Math.round(performance.now() - since);
    const { task: id, attempt, fence } = task;
    if (json)
      return printJson({ task: id, attempt, fence, outcome, ms, ...(message === undefined ? {} : { message }) });
    say(`${id} ${outcome} after ${ms} ms${message === undefined ? '' : ` (${message})`}`);
  };
  try {
    const result = await run;
    await tell('completed');
    return result;
  } catch (error) {
    const { name, message } = error as Error;
    await tell(name === 'Defer' ? 'handed back' : 'failed', message);
    throw error;
  }
}

/** Closed by us is a good end; by the daemon, with a code that forbids to come back, it is not. */
async function ended(client: Signalbox): Promise<number> {
  const closed: Closed = await client.closed;
  if (closed.code === 1000) return exit.ok;
  throw closed;
}
