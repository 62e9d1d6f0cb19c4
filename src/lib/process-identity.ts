import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * A process, for certain. A pid alone is given to somebody else once its process is gone (in a container, where a
 * restart begins at 1 again, very soon), so it goes together with the moment the process started.
 */
export interface ProcessIdentity {
  readonly pid: number;
  readonly started: string;
}

/** Undefined when no such process runs. A zombie does not run: nobody may ever reap it. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  const started = process.platform === 'linux' ? startedOnLinux(pid) : startedElsewhere(pid);
  return started === undefined ? undefined : { pid, started };
}

export function isRunning({ pid, started }: ProcessIdentity): boolean {
  return identityOf(pid)?.started === started;
}

/** Sends the signal unless the process is gone; the pid of another one is left in peace. */
export function signal(identity: ProcessIdentity, name: NodeJS.Signals): void {
  if (!isRunning(identity)) return;
  try {
    process.kill(identity.pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

// Start times count from the boot, so a pid and its start could come again after another boot.
let boot: string | undefined;

function startedOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in brackets may itself hold brackets and blanks; the fields begin after the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

function startedElsewhere(pid: number): string | undefined {
  try {
    const [state = '', ...lstart] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8' })
      .trim()
      .split(/\s+/);
    return state.startsWith('Z') ? undefined : lstart.join(' ');
  } catch {
    return undefined;
  }
}
