import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

/** CPU a process has used so far; 0 where /proc does not tell. */
export function cpuSeconds(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / 100; // utime and stime in ticks of 10 ms
  } catch {
    return 0;
  }
}

/** Resident memory in bytes; not a number where /proc does not tell. */
export function rssBytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
  } catch {
    return Number.NaN;
  }
}

/** Resident memory once it stands still, as it is for an idle process; after 10 s as it is then. */
export async function settledRssBytes(pid: number): Promise<number> {
  let last = rssBytes(pid);
  for (let still = 0, looks = 0; still < 3 && looks < 20; looks++) {
    await wait(500);
    const next = rssBytes(pid);
    still = Math.abs(next - last) < 256 * 1024 ? still + 1 : 0;
    last = next;
  }
  return last;
}

/** Refuses what would fail half way: so many sockets need as many open files in one process. */
export function needSockets(count: number): void {
  let most: string | undefined;
  try {
    // Node raises the soft limit to the hard one, for itself and what it starts.
    [, most] = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  } catch {
    return;
  }
  const needed = count + 500;
  if (most === undefined || most === 'unlimited' || Number(most) >= needed) return;
  throw new Error(
    `${count} sockets in one process need ${needed} open files, the hard limit here is ${most}: raise it (ulimit -Hn ${needed} as root, or LimitNOFILE) and run again, or leave this line out with --only`,
  );
}
