import type { Command } from 'commander';
import type { Signalbox } from '../client/index.js';
import { type ConnectionFlags, connected, daemonUrl, httpUrl, withClient } from './connection.js';
import { exit, type Outcome } from './exit.js';
import { ageOf, counted, print, printJson, printTable } from './output.js';
import { allPages } from './pages.js';

type Stats = Awaited<ReturnType<Signalbox['queue']['stats']>>['queues'][number];
type Lease = Awaited<ReturnType<Signalbox['lease']['list']>>['leases'][number];

export function statusCommand(program: Command, outcome: Outcome): void {
  connected(program.command('status'))
    .description('queues, sessions and what the daemon says of itself')
    .action(async (flags: ConnectionFlags) => {
      outcome.code = await status(flags);
    });
}

async function status(flags: ConnectionFlags): Promise<number> {
  const url = daemonUrl(flags);
  const { queues, leases } = await withClient(flags, { session: false }, async (client) => ({
    queues: await allPages((cursor) => client.queue.stats(cursor), 'queues'),
    leases: await allPages((cursor) => client.lease.list({ limit: 1000, ...cursor }), 'leases'),
  }));
  const daemon = await askDaemon(httpUrl(url, '/readyz'));
  const sessions = leases.filter(({ kind }) => kind === 'session');
  const tasksOf = (session: string): number =>
    leases.filter(({ kind, holder }) => kind === 'task' && holder.session === session).length;
  if (flags.json) {
    await printJson({
      daemon,
      queues,
      sessions: sessions.map((row) => ({ ...row, tasks: tasksOf(row.holder.session) })),
    });
    return exit.ok;
  }
  await print(`${url.href}: ${daemonLine(daemon)}`);
  await print('');
  await printQueues(queues);
  await print('');
  await printSessions(sessions, tasksOf);
  return exit.ok;
}

interface DaemonReport {
  readonly status: string;
  readonly reasons: readonly string[];
  readonly redis: string;
  readonly connections: number;
  readonly sessions: number;
  readonly workers: number;
  readonly version: string;
}

/** Behind a proxy only the WebSocket may be let through, and whoever answers then knows nothing of the daemon. */
async function askDaemon(url: string): Promise<DaemonReport | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(3000) });
    const report = (await response.json()) as Partial<DaemonReport>;
    return report.connections === undefined ? undefined : (report as DaemonReport);
  } catch {
    return undefined;
  }
}

function daemonLine(daemon: DaemonReport | undefined): string {
  if (!daemon) return 'connected';
  const { status, reasons, redis, connections, sessions, workers, version } = daemon;
  const why = reasons.length > 0 ? ` (${reasons.join('; ')})` : '';
  const counts = [counted(connections, 'connection'), counted(sessions, 'session'), counted(workers, 'worker')];
  return `${status}${why}, version ${version}, Redis ${redis}, ${counts.join(', ')}`;
}

async function printQueues(queues: readonly Stats[]): Promise<void> {
  if (queues.length === 0) return print('no queues yet');
  const heads = [
    'QUEUE',
    'READY',
    'ACTIVE',
    'SCHEDULED',
    'BLOCKED',
    'DEAD',
    'EXPIRED',
    'OLDEST',
    'IN/S',
    'DONE/S',
    'FAILED/S',
    'NOTE',
  ];
  await printTable(
    heads,
    queues.map(({ queue, states, oldestReadyMs, rates, paused, overloaded }) => [
      queue,
      ...['ready', 'active', 'scheduled', 'blocked', 'dead', 'expired'].map((state) => states[state] ?? 0),
      states.ready ? ageOf(oldestReadyMs) : undefined,
      rates.enqueued,
      rates.completed,
      rates.failed,
      [paused ? 'paused' : '', overloaded ? 'overloaded' : ''].filter(Boolean).join(' '),
    ]),
  );
}

async function printSessions(sessions: readonly Lease[], tasksOf: (session: string) => number): Promise<void> {
  if (sessions.length === 0) return print('no sessions');
  const now = Date.now();
  await printTable(
    ['SESSION', 'AGENT', 'TASKS', 'FOR', 'ENDS IN'],
    sessions.map(({ holder, sinceAt, endsAt }) => [
      holder.session,
      holder.agent,
      tasksOf(holder.session),
      ageOf(now - Date.parse(sinceAt)),
      endsAt === undefined ? undefined : ageOf(Math.max(0, Date.parse(endsAt) - now)),
    ]),
  );
}
