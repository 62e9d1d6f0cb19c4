import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { identityOf, isRunning, type ProcessIdentity, signal } from '../lib/process-identity.js';
import { askServer, type ServerFacts } from './ask-server.js';
import { spawnGuarded } from './guardian.js';

export interface LaunchOptions {
  readonly binary: string;
  readonly path: string;
  readonly dir: string;
  readonly log: string;
  readonly memoryBytes: number;
  readonly appendFsync: 'everysec' | 'always';
  /** Set for a Redis that must not outlive this process; names what goes with it. */
  readonly guard: { removes: readonly string[] } | undefined;
}

const GiB = 1024 ** 3;
const logBytesMax = 8 * 1024 ** 2;

/** What the configuration must be on every start, and on the adoption of one that an older daemon started. */
export function runtimeSettings({ memoryBytes, appendFsync, guard }: LaunchOptions): Record<string, string> {
  // In a container the machine's memory is not ours: the smaller of it and the limit counts.
  const ram = Math.min(totalmem(), process.constrainedMemory?.() || Number.POSITIVE_INFINITY);
  return {
    maxmemory: String(memoryBytes || Math.min(GiB, Math.floor(ram / 4))),
    'maxmemory-policy': 'noeviction',
    appendfsync: appendFsync,
    appendonly: guard ? 'no' : 'yes',
    save: '',
    // Redis searches a small sorted set from its front: what a busy worker holds is found faster in a real one.
    'zset-max-listpack-entries': '16',
  };
}

export function launch(options: LaunchOptions): ChildProcess {
  const { binary, path, dir, log, guard } = options;
  const settings = {
    port: '0',
    unixsocket: path,
    unixsocketperm: '700',
    dir,
    daemonize: 'no',
    ...runtimeSettings(options),
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) > logBytesMax) renameSync(log, `${log}.1`);
  const output = openSync(log, 'a', 0o600);
  // Nothing of our environment: it may hold secrets, and /proc shows it for as long as that Redis runs.
  const env = { PATH: process.env.PATH, ...(process.env.TZ === undefined ? {} : { TZ: process.env.TZ }) };
  try {
    const child = guard
      ? spawnGuarded(binary, args, { cwd: dir, output, env, removes: guard.removes })
      : spawn(binary, args, { cwd: dir, env, detached: true, stdio: ['ignore', output, output] });
    child.unref();
    return child;
  } finally {
    closeSync(output);
  }
}

/** Resolves when the child answers on its socket and has loaded its file. */
export async function answers(
  child: ChildProcess,
  { path, log }: LaunchOptions,
  limitMs: number,
): Promise<ServerFacts> {
  let ended: string | undefined;
  child.once('error', (error) => {
    ended = error.message;
  });
  child.once('exit', (code, name) => {
    ended = `it ended with ${code ?? name}`;
  });
  const deadline = performance.now() + limitMs;
  while (ended === undefined && performance.now() < deadline) {
    const answer = await askServer(path, Math.min(1000, limitMs));
    if (typeof answer === 'object' && answer.pid === child.pid && !answer.loading) return answer;
    await wait(10);
  }
  throw new Error(`the managed Redis did not start: ${ended ?? `no answer within ${limitMs} ms`}\n${lastLines(log)}`);
}

/**
 * Ends a Redis and resolves when it is gone. SIGTERM is its SHUTDOWN: the append-only file is written and forced to
 * disk first. One that does not end in time is killed; what it acknowledged more than a second ago is on disk then too.
 */
export async function endProcess(target: ProcessIdentity, limitMs: number): Promise<'ended' | 'killed'> {
  signal(target, 'SIGTERM');
  if (await gone(target, limitMs)) return 'ended';
  signal(target, 'SIGKILL');
  await gone(target, Number.POSITIVE_INFINITY);
  return 'killed';
}

export function identityOfChild(child: ChildProcess): ProcessIdentity {
  const identity = child.pid === undefined ? undefined : identityOf(child.pid);
  // Gone already: an identity that no process has.
  return identity ?? { pid: child.pid ?? 0, started: 'never' };
}

/** By looking, not by the exit event: an adopted Redis is no child of ours. */
async function gone(target: ProcessIdentity, limitMs: number): Promise<boolean> {
  const deadline = performance.now() + limitMs;
  while (isRunning(target)) {
    if (performance.now() >= deadline) return false;
    await wait(10);
  }
  return true;
}

function lastLines(file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
  } catch {
    return '';
  }
}
