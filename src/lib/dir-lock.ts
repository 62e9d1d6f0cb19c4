import { linkSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newId } from './ids.js';
import { identityOf, isRunning, type ProcessIdentity } from './process-identity.js';

/**
 * An exclusive lock on a directory that a dead holder cannot leave behind. Node has no flock, and a pid file that is
 * taken over by deleting it lets two processes in: both find it stale, the slower one deletes the lock of the faster.
 *
 * So nothing is ever replaced. The lock is the file `lock.<n>` of the highest n; it appears complete (link is atomic)
 * and stays, also after release, when it says so. Taking over means creating n + 1, which one process can do. Lower
 * files are deleted by the holder of a higher one; whoever created a file below an existing one, because it read the
 * directory long ago, sees that afterwards and withdraws. The highest file is never deleted, so n never goes back.
 */
export class DirHeldError extends Error {
  override readonly name = 'DirHeldError';
  readonly pid: number;

  constructor(dir: string, pid: number) {
    super(`${dir} is in use by the process ${pid}: stop it, or choose another directory`);
    this.pid = pid;
  }
}

export class DirLock {
  readonly #dir: string;
  readonly #file: string;

  private constructor(dir: string, file: string) {
    this.#dir = dir;
    this.#file = file;
  }

  /** Throws a DirHeldError that names the holder's pid. */
  static acquire(dir: string): DirLock {
    const self = identityOf(process.pid) ?? { pid: process.pid, started: '' };
    for (;;) {
      const highest = Math.max(0, ...generations(dir));
      const holder = readHolder(join(dir, `lock.${highest}`));
      if (holder && isRunning(holder)) throw new DirHeldError(dir, holder.pid);
      const file = join(dir, `lock.${highest + 1}`);
      if (!createComplete(dir, file, self)) continue;
      const found = generations(dir);
      if (Math.max(...found) > highest + 1) {
        rmSync(file, { force: true });
        continue;
      }
      for (const lower of found) if (lower <= highest) rmSync(join(dir, `lock.${lower}`), { force: true });
      return new DirLock(dir, file);
    }
  }

  release(): void {
    try {
      const note = join(this.#dir, `.${newId()}`);
      writeFileSync(note, '{}\n', { mode: 0o600 });
      renameSync(note, this.#file);
    } catch (error) {
      // The directory went away: there is nothing left to hold.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
}

function generations(dir: string): number[] {
  return readdirSync(dir).flatMap((name) => {
    const match = /^lock\.(\d{1,15})$/.exec(name);
    return match ? [Number(match[1])] : [];
  });
}

/** Undefined when it was released, is not there, or was damaged by a crash of the machine (then nobody runs). */
function readHolder(file: string): ProcessIdentity | undefined {
  try {
    const { pid, started } = JSON.parse(readFileSync(file, 'utf8')) as Partial<ProcessIdentity>;
    return typeof pid === 'number' && typeof started === 'string' ? { pid, started } : undefined;
  } catch {
    return undefined;
  }
}

/** False when somebody else created the file first. */
function createComplete(dir: string, file: string, holder: ProcessIdentity): boolean {
  const draft = join(dir, `.${newId()}`);
  writeFileSync(draft, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
