import type { Command } from 'commander';
import type { LockOptions } from '../client/index.js';
import { wrongUsage } from './exit.js';
import { durationMs, whole } from './input.js';

export interface LockFlags {
  readonly shared?: true;
  readonly permits?: number;
  readonly wait?: number | false;
  readonly maxHold?: number;
  readonly reason?: string;
}

/** As long as it takes: the longest duration there is. */
const foreverMs = 366 * 86_400_000;

/** How a lock is asked for, alike in every command that takes one. */
export function lockFlags(command: Command): Command {
  return command
    .option('--shared', 'beside other readers of a read/write lock')
    .option('--permits <number>', 'so many permits of a semaphore', whole(1, 1_000_000_000))
    .option('--wait <duration>', 'wait at most so long (as long as it takes)', durationMs)
    .option('--no-wait', 'do not wait: exit code 75 when it is not free')
    .option('--max-hold <duration>', 'it is taken away after that', durationMs)
    .option('--reason <text>', 'shown to whoever waits for it');
}

export function lockOptionsOf(
  { shared, permits, wait, maxHold: maxHoldMs, reason }: LockFlags,
  reasonDefault: string,
): LockOptions & { waitMs: number } {
  if (shared && permits !== undefined) {
    throw wrongUsage(
      '--shared is for read/write locks and --permits for semaphores',
      'a lock is one of them; leave one out',
    );
  }
  return {
    ...(shared ? { mode: 'shared' as const } : {}),
    ...(permits === undefined ? {} : { permits }),
    ...(maxHoldMs === undefined ? {} : { maxHoldMs }),
    waitMs: wait === false ? 0 : (wait ?? foreverMs),
    reason: (reason ?? reasonDefault).slice(0, 200),
  };
}
