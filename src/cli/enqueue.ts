import { type Command, Option } from 'commander';
import type { EnqueueOptions, Signalbox, TaskResult } from '../client/index.js';
import { type ConnectionFlags, connected, withClient } from './connection.js';
import { exit, type Outcome, wrongUsage } from './exit.js';
import { durationMs, readJson, whole } from './input.js';
import { print, printJson, say } from './output.js';

interface Flags extends ConnectionFlags {
  readonly id?: string;
  readonly key?: string;
  readonly priority?: number;
  readonly delay?: number;
  readonly at?: string;
  readonly kind?: string;
  readonly tenant?: string;
  readonly attempts?: number;
  readonly timeout?: number;
  readonly deadline?: number;
  readonly wait?: true | number;
}

const waitStepMs = 60_000;

export function enqueueCommand(program: Command, outcome: Outcome): void {
  connected(program.command('enqueue'))
    .description('put a task into a queue')
    .argument('<queue>')
    .argument('[payload]', 'JSON, or - for standard input', 'null')
    .option('--id <task>', 'id of the task; the same one again is the same task')
    .option('--key <key>', 'unique in the queue while the task lives and a while after')
    .option('--priority <0-100>', 'higher is more urgent (50)', whole(0, 100))
    .option('--delay <duration>', 'not before this time has passed: 1500, 30s, 10m', durationMs)
    .addOption(new Option('--at <instant>', 'not before this instant (RFC 3339)').conflicts('delay'))
    .option('--kind <kind>', 'only workers of this kind, or of all, get it')
    .option('--tenant <tenant>', 'whose share of the workers it counts against')
    .option('--attempts <number>', 'how often it may be tried', whole(1, 100))
    .option('--timeout <duration>', 'longest time of one attempt', durationMs)
    .option('--deadline <duration>', 'expires unless it completed by then', durationMs)
    .option('--wait [duration]', 'wait for its end and print the result (as long as it takes)', durationMs)
    .action(async (queue: string, payload: string, flags: Flags) => {
      outcome.code = await enqueue(queue, await readJson(payload, 'the payload'), flags);
    });
}

async function enqueue(queue: string, payload: unknown, flags: Flags): Promise<number> {
  if (queue === '') throw wrongUsage('the name of a queue is empty');
  const { wait, json } = flags;
  return withClient(flags, { session: true }, async (client) => {
    const enqueued = await client.enqueue(queue, payload, optionsOf(flags));
    if (wait === undefined) {
      await (json ? printJson(enqueued) : print(enqueued.task));
      return exit.ok;
    }
    if (!json)
      say(`task ${enqueued.task} is ${enqueued.state}${enqueued.deduplicated ? ' (it was there before)' : ''}`);
    const result = await ended(client, enqueued.task, wait === true ? Number.POSITIVE_INFINITY : wait);
    if (json) await printJson({ ...enqueued, ...result });
    else await tell(result);
    return exitOf(result);
  });
}

/** In steps: a single long wait would not survive a daemon that is exchanged meanwhile. */
async function ended(client: Signalbox, task: string, limitMs: number): Promise<TaskResult> {
  const until = performance.now() + limitMs;
  for (;;) {
    const left = Math.max(0, until - performance.now());
    const result = await client.result(task, { waitMs: Math.ceil(Math.min(waitStepMs, left)) });
    if (final.has(result.state) || left <= waitStepMs) return result;
  }
}

function optionsOf({ id, key, priority, delay, at, kind, tenant, attempts, timeout, deadline }: Flags): EnqueueOptions {
  const given = {
    task: id,
    key,
    priority,
    delayMs: delay,
    runAt: at,
    kind,
    tenant,
    maxAttempts: attempts,
    timeoutMs: timeout,
    deadlineMs: deadline,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

async function tell({ state, result, error }: TaskResult): Promise<void> {
  if (state === 'completed') await print(JSON.stringify(result ?? null));
  else if (final.has(state)) say(`the task is ${state}${error === undefined ? '' : `: ${error.message}`}`);
  else say(`not ended in time: the task is ${state}`);
}

const final: ReadonlySet<string> = new Set(['completed', 'dead', 'cancelled', 'expired']);
const exitOf = ({ state }: TaskResult): number =>
  state === 'completed' ? exit.ok : final.has(state) ? exit.failure : exit.busy;
