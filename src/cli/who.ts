import type { Command } from 'commander';
import type { Signalbox } from '../client/index.js';
import { type ConnectionFlags, connected, withClient } from './connection.js';
import { ageOf, print, printJson, printTable } from './output.js';
import { allPages } from './pages.js';

type Lease = Awaited<ReturnType<Signalbox['lease']['list']>>['leases'][number];

export function whoCommand(program: Command): void {
  connected(program.command('who'))
    .description('live sessions and what they hold')
    .option('--agent <name>', 'only of this agent')
    .action(who);
}

async function who({ agent, ...flags }: ConnectionFlags & { agent?: string }): Promise<void> {
  const wanted = agent === undefined ? {} : { agent };
  const leases = await withClient(flags, { session: false }, (client) =>
    allPages((cursor) => client.lease.list({ ...wanted, limit: 1000, ...cursor }), 'leases'),
  );
  const sessions = bySession(leases);
  if (flags.json) return printJson({ sessions });
  if (sessions.length === 0) return print('no sessions');
  const heads = ['AGENT', 'SESSION', 'HOLDS', 'NAME', 'FENCE', 'FOR', 'ENDS IN'];
  await printTable(heads, sessions.flatMap(rowsOf));
}

interface SessionRow {
  readonly session: string;
  readonly agent: string;
  readonly sinceAt?: string;
  readonly endsAt?: string;
  readonly holds: Lease[];
}

/** A session that was opened or ended between two pages may show with a part of its rows. */
function bySession(leases: readonly Lease[]): SessionRow[] {
  const sessions = new Map<string, SessionRow>();
  for (const lease of leases) {
    const { session, agent } = lease.holder;
    const known = sessions.get(session) ?? { session, agent, holds: [] };
    if (lease.kind === 'session') {
      const { sinceAt, endsAt } = lease;
      sessions.set(session, { ...known, sinceAt, ...(endsAt === undefined ? {} : { endsAt }) });
    } else {
      known.holds.push(lease);
      sessions.set(session, known);
    }
  }
  return [...sessions.values()];
}

/** One line for each thing a session holds or waits for, its name on the first. */
function rowsOf({ session, agent, sinceAt, endsAt, holds }: SessionRow): unknown[][] {
  if (holds.length === 0) return [[agent, session, 'nothing', undefined, undefined, forOf(sinceAt), inOf(endsAt)]];
  return holds.map((lease, i) => [
    i === 0 ? agent : '',
    i === 0 ? session : '',
    lease.state === 'waiting' ? `waits: ${lease.kind}` : lease.kind,
    lease.locks?.join(', ') ?? lease.name,
    lease.fence,
    forOf(lease.sinceAt),
    inOf(lease.endsAt ?? endsAt),
  ]);
}

const forOf = (at: string | undefined): string | undefined =>
  at === undefined ? undefined : ageOf(Math.max(0, Date.now() - Date.parse(at)));
const inOf = (at: string | undefined): string | undefined =>
  at === undefined ? undefined : ageOf(Math.max(0, Date.parse(at) - Date.now()));
