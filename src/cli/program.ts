import { Command } from 'commander';
import { callCommand } from './call.js';
import { configCommand } from './config.js';
import { deadCommand } from './dead.js';
import { doctorCommand } from './doctor.js';
import { enqueueCommand } from './enqueue.js';
import { exit, failureOf, type Outcome } from './exit.js';
import { generateCommand } from './generate.js';
import { limitCommand } from './limit.js';
import { lockCommand } from './lock.js';
import { endWithReader, say } from './output.js';
import { packageVersion } from './package.js';
import { redisCliCommand } from './redis-cli.js';
import { runCommand } from './run.js';
import { configured } from './settings.js';
import { statusCommand } from './status.js';
import { tailCommand } from './tail.js';
import { tasksCommand } from './tasks.js';
import type { UpFlags } from './up.js';
import { whoCommand } from './who.js';
import { workCommand } from './work.js';

/** The whole command line. Actions load what they need when they run: `tail` has no use for a daemon's code. */
export function makeProgram(outcome: Outcome): Command {
  const program = new Command('signalbox')
    .description('The coordination daemon for AI agents: tasks, sessions and a live feed, on Redis.')
    .version(packageVersion())
    .enablePositionalOptions()
    .showHelpAfterError('(--help after the command tells more)')
    .exitOverride();
  configured(program.command('up'))
    .description('start the daemon (and its Redis, when none is configured)')
    .option('--port <number>', 'port for WebSocket and HTTP; 0 takes a free one ($SIGNALBOX_PORT; 7171)')
    .option('--host <address>', 'address to listen on ($SIGNALBOX_HOST; 127.0.0.1)')
    .option('--ephemeral', 'keep nothing: the managed Redis ends with the daemon')
    .option('--json', 'print where it listens as JSON')
    .action(async (flags: UpFlags) => {
      const { up } = await import('./up.js');
      outcome.code = await up(flags);
    });
  program
    .command('demo')
    .description('500 documents, 10 agents, one killed, one frozen: watch nothing get lost')
    .argument('[args...]')
    .allowUnknownOption()
    .passThroughOptions()
    .helpOption(false)
    .action(async (args: string[]) => {
      const { demo } = await import('./demo.js');
      outcome.code = await demo(args);
    });
  const commands = [
    enqueueCommand,
    workCommand,
    runCommand,
    lockCommand,
    limitCommand,
    whoCommand,
    tailCommand,
    statusCommand,
    tasksCommand,
    deadCommand,
    callCommand,
    redisCliCommand,
    doctorCommand,
    configCommand,
    generateCommand,
  ];
  for (const add of commands) add(program, outcome);
  return program;
}

/** Runs one command line and answers its exit code. */
export async function run(args: readonly string[]): Promise<number> {
  endWithReader();
  const outcome: Outcome = { code: exit.ok };
  try {
    await makeProgram(outcome).parseAsync(args, { from: 'user' });
    return outcome.code;
  } catch (error) {
    const failure = failureOf(error);
    if (failure.silent) return failure.exit;
    const { message, advice } = failure;
    if (isJson(args)) say(JSON.stringify({ error: failure.error ?? { message }, ...(advice ? { advice } : {}) }));
    else say(`signalbox: ${message}${advice ? `\n  ${advice}` : ''}`);
    return failure.exit;
  }
}

function isJson(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end < 0 ? args : args.slice(0, end)).includes('--json');
}
