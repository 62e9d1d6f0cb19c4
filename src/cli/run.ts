import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import type { Command } from 'commander';
import { type Lock, Refusal, type Signalbox } from '../client/index.js';
import { spawnGuarded } from '../redis/guardian.js';
import { type ConnectionFlags, connected, daemonUrl, open, tellStatus } from './connection.js';
import { CliError, exit, type Outcome, wrongUsage } from './exit.js';
import { collect, durationMs } from './input.js';
import { kill, killOnAbort } from './kill.js';
import { type LockFlags, lockFlags, lockOptionsOf } from './lock-flags.js';
import { say, visible } from './output.js';
import { onStopSignals } from './signals.js';

interface Flags extends ConnectionFlags, LockFlags {
  readonly lock?: readonly string[];
  readonly killAfter: number;
}

export function runCommand(program: Command, outcome: Outcome): void {
  lockFlags(connected(program.command('run')))
    .description('run a command while holding a lock; lost, the command is told to stop. Ends with its exit code')
    .argument('<command...>', 'behind --')
    .option('--lock <name>', 'hold this lock; several are taken in one step', collect)
    .option('--kill-after <duration>', 'between SIGTERM and SIGKILL to a command that lost its lock', durationMs, 4000)
    .action(async ([command, ...args]: string[], flags: Flags) => {
      outcome.code = await run(command!, args, flags);
    });
}

async function run(command: string, args: readonly string[], flags: Flags): Promise<number> {
  const { lock: names = [], json } = flags;
  if (names.length === 0) throw wrongUsage('there is nothing to hold', 'name a lock: --lock <name>');
  const options = lockOptionsOf(flags, command);
  const client = await open(flags, { session: true, ...(json ? {} : { onStatus: tellStatus }) });
  const stop = new AbortController();
  let child: ChildProcess | undefined;
  const unhook = onStopSignals(
    (signal) => (child ? passOn(child, signal) : stop.abort(new GivenUp(names, signal))),
    () => (child ? kill(child, 'SIGKILL') : process.exit(exit.failure)),
  );
  const under = async (held: Lock): Promise<number> => {
    held.signal.throwIfAborted();
    child = start(command, args, { SIGNALBOX_URL: daemonUrl(flags).href, ...lockEnv(names, held) });
    return endOf(child, held.signal, names, flags.killAfter);
  };
  try {
    return await takeTurn(client, names, { ...options, signal: stop.signal }, under, json ? () => {} : say);
  } catch (error) {
    // A signal between the grant and the start of the command is still one that came while it waited.
    if (!child && stop.signal.aborted) throw stop.signal.reason;
    const { name, reason } = error as Error & { reason?: string };
    if (name === 'Ended') throw new CliError(`the lock ${shown(names)} was lost (${reason}) while the command ran`);
    throw error;
  } finally {
    unhook();
    await client.close({ limitMs: 2000 });
  }
}

/** Tries first without waiting: the refusal says who is in the way. */
async function takeTurn(
  client: Signalbox,
  names: readonly string[],
  options: ReturnType<typeof lockOptionsOf> & { signal: AbortSignal },
  under: (held: Lock) => Promise<number>,
  tell: (line: string) => void,
): Promise<number> {
  try {
    return await client.lock(names, { ...options, waitMs: 0 }, under);
  } catch (error) {
    if (!(error instanceof Refusal && error.code === 'HELD') || options.waitMs === 0) throw error;
    tell(`waiting for ${shown(names)}${inTheWay(error)}`);
  }
  return client.lock(names, options, under);
}

function inTheWay({ details }: Refusal): string {
  const { holder, reason } = (details ?? {}) as { holder?: { agent: string }; reason?: string };
  if (!holder) return '';
  return `: ${visible(holder.agent)} is ahead${reason === undefined ? '' : ` (${visible(reason)})`}`;
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
async function endOf(
  child: ChildProcess,
  lost: AbortSignal,
  names: readonly string[],
  killAfterMs: number,
): Promise<number> {
  const tell = (): void => say(`signalbox: the lock ${shown(names)} is lost; the command is told to stop`);
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
    super(`gave up waiting for ${shown(names)} on ${signal}`, { code: 128 + constants.signals[signal] });
  }
}

const shown = (names: readonly string[]): string => names.map(visible).join(', ');
