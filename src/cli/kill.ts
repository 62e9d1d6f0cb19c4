import type { ChildProcess } from 'node:child_process';

/** SIGTERM when `signal` aborts, and SIGKILL when that was not heeded in time. Answers how to take it off. */
export function killOnAbort(child: ChildProcess, signal: AbortSignal, killAfterMs: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  const abort = (): void => {
    kill(child, 'SIGTERM');
    timer = setTimeout(() => kill(child, 'SIGKILL'), killAfterMs);
  };
  if (signal.aborted) abort();
  else signal.addEventListener('abort', abort, { once: true });
  return () => {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  };
}

/** To its whole process group where it leads one, so that it reaches everything the command started. */
export function kill(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    if (process.platform === 'win32') child.kill(name);
    else process.kill(-child.pid, name);
  } catch (error) {
    // It ended in this moment, or has no group of its own.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') child.kill(name);
  }
}
