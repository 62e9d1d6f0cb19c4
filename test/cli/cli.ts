import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { run } from '../../src/cli/program.js';

const program = fileURLToPath(new URL('../../bin/signalbox.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface Running {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
  out(): string;
  err(): string;
  /** Resolves when what it has written so far fits; rejects when it ends before. */
  until(fits: (out: string, err: string) => boolean, limitMs?: number): Promise<void>;
}

export interface CliOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string;
}

/** Starts `signalbox …` as a user would, with an environment that holds nothing of ours. */
export function start(args: readonly string[], { env = {}, input }: CliOptions = {}): Running {
  const { PATH, HOME } = process.env;
  const child = spawn(process.execPath, [program, ...args], { env: { PATH, HOME, ...env }, stdio: 'pipe' });
  const text = { out: '', err: '' };
  const watchers = new Set<() => void>();
  const read = (name: 'out' | 'err') => (data: Buffer) => {
    text[name] += data;
    for (const watcher of [...watchers]) watcher();
  };
  child.stdout.on('data', read('out'));
  child.stderr.on('data', read('err'));
  child.stdin.on('error', () => undefined);
  if (input !== undefined) child.stdin.end(input);
  const end = (): void => void child.kill('SIGKILL');
  process.once('exit', end);
  const ended = once(child, 'close').then(([code]) => {
    process.off('exit', end);
    return { code: code as number | null, ...text };
  });
  const until: Running['until'] = (fits, limitMs = 15_000) =>
    new Promise((resolve, reject) => {
      const fail = (why: string) => reject(new Error(`${why}: ${args.join(' ')}\n${text.out}\n${text.err}`));
      const timer = setTimeout(() => fail(`not within ${limitMs} ms`), limitMs);
      const look = () => {
        if (!fits(text.out, text.err)) return;
        clearTimeout(timer);
        watchers.delete(look);
        resolve();
      };
      watchers.add(look);
      void ended.then(() => {
        clearTimeout(timer);
        fail('it ended before');
      });
      look();
    });
  return { process: child, ended, out: () => text.out, err: () => text.err, until };
}

/**
 * One command line, run in this process: what it prints is caught, and its exit code is answered. A process of its own
 * for each would be slow and show no more; those tests that are about the process use `start`.
 */
export async function cli(args: readonly string[], { env = {} }: Pick<CliOptions, 'env'> = {}): Promise<Ended> {
  const caught = { out: '', err: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      caught[name === 'stdout' ? 'out' : 'err'] += String(text);
      return true;
    }),
  );
  const saved = process.env;
  process.env = { PATH: saved.PATH, HOME: saved.HOME, ...env };
  try {
    return { code: await run(args), ...caught };
  } finally {
    process.env = saved;
    for (const spy of spies) spy.mockRestore();
  }
}

/** The same with --json, of a command that must succeed; answers what it prints. */
// biome-ignore lint/suspicious/noExplicitAny: a test looks at any shape
export async function json(args: readonly string[], options: Pick<CliOptions, 'env'> = {}): Promise<any> {
  const { code, out, err } = await cli([...args, '--json'], options);
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}\n${out}\n${err}`);
  return JSON.parse(out);
}
