import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { Defer, Fail, type Task } from '../client/index.js';
import { exit } from './exit.js';
import { kill, killOnAbort } from './kill.js';

export interface ChildOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Between SIGTERM and SIGKILL when the task is taken away or cancelled. */
  readonly killAfterMs: number;
  /** How long a task that was handed back (75) rests. */
  readonly restMs: number;
}

/** A result larger than this could not be stored; a command that never stops writing must not fill our memory. */
const outputBytesMax = 1024 * 1024;
/** Of standard error, for the error of the task. */
const tailBytes = 2048;

/**
 * One task, one process: payload on standard input, result from standard output, the exit code decides. It runs in a
 * process group of its own, so that Ctrl-C reaches us alone and a kill reaches everything it started.
 */
export async function runChild(task: Task, signal: AbortSignal, options: ChildOptions): Promise<unknown> {
  const { command, args, env } = options;
  const child = spawn(command, args, {
    env: { ...env, ...taskEnv(task) },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  });
  // A command that does not read its input is no failure.
  child.stdin.on('error', () => undefined);
  child.stdin.end(`${JSON.stringify(task.payload ?? null)}\n`);
  const stopKilling = killOnAbort(child, signal, options.killAfterMs);
  const output = collectOutput(child.stdout, () => kill(child, 'SIGKILL'));
  const errors = passErrors(child.stderr);
  try {
    const [code, name] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
    if (output.overflown()) throw new Fail(`the output is larger than ${outputBytesMax} bytes`, { code: 'TOO_LARGE' });
    if (code === exit.ok) return resultOf(output.text());
    if (code === exit.busy) throw new Defer({ afterMs: options.restMs, reason: errors.last() || 'exit code 75' });
    const how = name === null ? `exit code ${code}` : `ended by ${name}`;
    const said = errors.last();
    throw new Fail(said === '' ? how : `${how}: ${said}`, { code: name === null ? `EXIT_${code}` : name, retry: true });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    // No such program: another try would end the same way, here; another worker may have it.
    if (code === 'ENOENT' || code === 'EACCES')
      throw new Fail(`cannot run ${command}: ${message}`, { code, retry: true });
    throw error;
  } finally {
    stopKilling();
  }
}

function taskEnv({ task, queue, kind, attempt, maxAttempts, fence, metadata }: Task): NodeJS.ProcessEnv {
  return {
    SIGNALBOX_TASK_ID: task,
    SIGNALBOX_TASK_QUEUE: queue,
    SIGNALBOX_TASK_KIND: kind ?? '',
    SIGNALBOX_TASK_ATTEMPT: String(attempt),
    SIGNALBOX_TASK_MAX_ATTEMPTS: String(maxAttempts),
    SIGNALBOX_TASK_FENCE: String(fence),
    SIGNALBOX_TASK_METADATA: metadata === undefined ? '' : JSON.stringify(metadata),
  };
}

/** JSON if it is, else the text as it stands without its last line break. */
function resultOf(text: string): unknown {
  const trimmed = text.replace(/\r?\n$/, '');
  if (trimmed.trim() === '') return null;
  try {
    return JSON.parse(trimmed);
  } catch {
    return trimmed;
  }
}

function collectOutput(stream: Readable, overflow: () => void) {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= outputBytesMax) chunks.push(chunk);
    else overflow();
  });
  return { overflown: () => bytes > outputBytesMax, text: () => Buffer.concat(chunks).toString() };
}

/** What the command complains about goes to our own standard error; its last line becomes the task's error. */
function passErrors(stream: Readable) {
  let tail = '';
  stream.on('data', (chunk: Buffer) => {
    process.stderr.write(chunk);
    tail = `${tail}${chunk}`.slice(-tailBytes);
  });
  return { last: () => tail.trimEnd().split('\n').at(-1)?.trim().slice(0, 500) ?? '' };
}
