import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';

/**
 * Starts a process that cannot outlive this one, not even after kill -9, when no code of ours runs any more.
 *
 * The child is first a shell. It forks a watcher that blocks reading a pipe whose only writer is this process, and
 * then becomes (exec) the wanted program, so the watcher knows the pid before the program exists: there is no moment
 * in which the program runs unwatched. When the pipe closes without the word `done`, the owner is dead: the watcher
 * kills the pid and removes the paths it was given, within milliseconds, so that whoever starts next finds a clean
 * place. It always ends: with the word, or with us.
 *
 * A signal to the program's whole group is not meant for the watcher. It is forked twice so that the program never
 * finds a child it does not know. `done` is sent as soon as the program's end was seen here, so the watcher never
 * kills a pid that was given to somebody else meanwhile.
 */
const script = `
paths=$1; shift
( ( trap '' HUP INT TERM
    IFS= read -r word <&3
    if [ "$word" != done ]; then
      kill -9 $$
      eval "rm -rf -- $paths"
    fi ) >/dev/null 2>&1 & )
exec 3<&-
exec "$@"
`;

export interface GuardedOptions {
  cwd: string;
  /** What takes the program's output: a file descriptor, `pipe` for the caller to read, or where ours goes. */
  output: number | 'pipe' | 'inherit';
  /** Whether it reads our input; by default it has none. */
  input?: 'inherit';
  /** In a process session of its own (the default): Ctrl-C is for its owner, who then ends it in order. */
  detached?: boolean;
  env?: NodeJS.ProcessEnv;
  /** Absolute paths removed after this process was killed. */
  removes?: readonly string[];
}

export function spawnGuarded(program: string, args: readonly string[], options: GuardedOptions): ChildProcess {
  const paths = (options.removes ?? []).map((path) => `'${path.replaceAll("'", `'\\''`)}'`).join(' ');
  const child = spawn('/bin/sh', ['-c', script, 'guardian', paths, program, ...args], {
    cwd: options.cwd,
    detached: options.detached ?? true,
    // Not stdin: Node destroys that before it tells of the exit, and the word could not be sent any more.
    stdio: [options.input ?? 'ignore', options.output, options.output, 'pipe'],
    ...(options.env === undefined ? {} : { env: options.env }),
  });
  const pipe = child.stdio[3] as Socket | null | undefined;
  pipe?.on('error', () => {}); // EPIPE, when the watcher is gone already
  pipe?.unref();
  child.once('exit', () => pipe?.end('done\n'));
  return child;
}
