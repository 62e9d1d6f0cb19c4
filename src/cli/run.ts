import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import type { Command } from 'commander';
import type { Lock } from '../client/index.js';
import { spawnGuarded } from '../redis/guardian.js';
import { type ConnectionFlags, connected, daemonUrl, open, tellStatus } from './connection.js';
import { mustBeThere } from './executable.js';
import { CliError, exit, type Outcome, wrongUsage } from './exit.js';
import { type Held, hold, type Wanted } from './hold.js';
import { collect, durationMs, once as onceOnly, pairs } from './input.js';
import { kill, killOnAbort } from './kill.js';
import { type LockFlags, lockFlags, lockOptionsOf } from './lock-flags.js';
import { say, visible } from './output.js';
import { onStopSignals } from './signals.js';

interface Flags extends ConnectionFlags, LockFlags {
  readonly lock?: readonly string[];
  readonly limit?: string;
  readonly cost?: readonly string[];
  readonly killAfter: number;
}

export function runCommand(program: Command, outcome: Outcome): void {
  lockFlags(connected(program.command('run')))
    .description(
      'run a command while holding a lock or a part of a limit; lost, it is told to stop. Ends with its exit code',
    )
    .argument('<command...>', 'behind --')
    .option('--lock <name>', 'hold this lock; several are taken in one step', collect)
    .option('--limit <name>', 'hold a part of this limit, taken once the locks are held', onceOnly)
    .option('--cost <dimension=amount>', 'which part; may be repeated (1 of concurrency, 1 of requests)', collect)
    .option(
      '--kill-after <duration>',
      'between SIGTERM and SIGKILL to a command that lost what it held',
      durationMs,
      4000,
    )
    .action(async ([command, ...args]: string[], flags: Flags) => {
      outcome.code = await run(command!, args, flags);
    });
}

async function run(command: string, args: readonly string[], flags: Flags): Promise<number> {
  const { lock: locks = [], limit, json } = flags;
  if (locks.length === 0 && limit === undefined)
    throw wrongUsage('there is nothing to hold', 'name a lock: --lock <name>, or a limit: --limit <name>');
  mustBeThere(command);
  const options = lockOptionsOf(flags, command);
  const part = partOf(flags);
  const client = await open(flags, { session: true, ...(json ? {} : { onStatus: tellStatus }) });
  const stop = new AbortController();
  let child: ChildProcess | undefined;
  const unhook = onStopSignals(
    (signal) =>
      child ? passOn(child, signal) : stop.abort(new GivenUp([...locks, ...(limit ? [limit] : [])], signal)),
    () => (child ? kill(child, 'SIGKILL') : process.exit(exit.failure)),
  );
  const under = async (held: readonly Held[], lock: Lock | undefined): Promise<number> => {
    for (const { signal } of held) signal.throwIfAborted();
    child = start(command, args, { SIGNALBOX_URL: daemonUrl(flags).href, ...(lock ? lockEnv(locks, lock) : {}) });
    return endOf(child, held, flags.killAfter);
  };
  try {
    const wanted = { locks, ...part, options, signal: stop.signal, tell: json ? () => {} : say };
    return await hold(client, wanted, under);
  } catch (error) {
    // A signal between the grant and the start of the command is still one that came while it waited.
    if (!child && stop.signal.aborted) throw stop.signal.reason;
    throw error;
  } finally {
    unhook();
    await client.close({ limitMs: 2000 });
  }
}

function partOf({ limit, cost }: Flags): Pick<Wanted, 'limit' | 'cost'> {
  if (cost && limit === undefined) throw wrongUsage('--cost is a part of a limit', 'name the limit: --limit <name>');
  const amounts = Object.entries(pairs(cost, '--cost')).map(([name, text]) => {
    if (!/^[1-9]\d*$/.test(text))
      throw wrongUsage(`--cost ${name}=${text} is no whole number from 1`, 'write it like --cost tokens=4000');
    return [name, Number(text)] as const;
  });
  return { ...(limit === undefined ? {} : { limit }), ...(cost ? { cost: Object.fromEntries(amounts) } : {}) };
}

/**
 * It cannot outlive us: with us goes the lock. At a terminal it stays in our process group, where it may read; else it
 * leads one of its own, so that a signal reaches everything it started.
 */
function start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawnGuarded(command, args, {
    cwd: process.cwd(),
    env: { ...process.env, ...env },
    input: 'inherit',
    output: 'inherit',
    detached: !process.stdin.isTTY,
  });
}

const lockEnv = (names: readonly string[], { fence }: Lock): NodeJS.ProcessEnv => ({
  SIGNALBOX_LOCK_NAMES: JSON.stringify(names),
  SIGNALBOX_LOCK_FENCE: String(fence),
});

/** Its exit code, or, as in a shell, 128 and the signal that ended it. */
async function endOf(child: ChildProcess, held: readonly Held[], killAfterMs: number): Promise<number> {
  const lost = AbortSignal.any(held.map(({ signal }) => signal));
  const tell = (): void => {
    const what = held.find(({ signal }) => signal.aborted)?.what;
    say(`signalbox: ${what} is lost; the command is told to stop`);
  };
  lost.addEventListener('abort', tell, { once: true });
  const stopKilling = killOnAbort(child, lost, killAfterMs);
  try {
    const [code, name] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    return code ?? 128 + constants.signals[name!];
  } finally {
    stopKilling();
    lost.removeEventListener('abort', tell);
  }
}

/** Ctrl-C at a terminal has reached it already. */
function passOn(child: ChildProcess, signal: NodeJS.Signals): void {
  if (!(process.stdin.isTTY && signal === 'SIGINT')) kill(child, signal);
}

class GivenUp extends CliError {
  constructor(names: readonly string[], signal: NodeJS.Signals) {
    super(`gave up waiting for ${names.map(visible).join(', ')} on ${signal}`, {
      code: 128 + constants.signals[signal],
    });
  }
}
