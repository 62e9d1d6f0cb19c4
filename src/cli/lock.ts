import type { Command } from 'commander';
import { type Lock, Refusal, type Signalbox } from '../client/index.js';
import { type ConnectionFlags, connected, open, withClient } from './connection.js';
import { CliError, exit, type Outcome, wrongUsage } from './exit.js';
import { durationMs, whole } from './input.js';
import { type LockFlags, lockFlags, lockOptionsOf } from './lock-flags.js';
import { ageOf, print, printJson, printTable, visible } from './output.js';
import { allPages } from './pages.js';

type Shown = Awaited<ReturnType<Signalbox['lock']['list']>>['locks'][number];

export function lockCommand(program: Command, outcome: Outcome): void {
  const lock = program.command('lock').description('look at locks, take them for a while, take them from others');
  connected(lock.command('ls', { isDefault: true }))
    .description('locks that are defined, held or waited for (also without `ls`)')
    .argument('[prefix]', 'only names that begin so')
    .action(list);
  lockFlags(connected(lock.command('acquire')))
    .description('take locks, in one step, beyond the end of this command; prints the word that `lock release` takes')
    .argument('<name...>')
    .option('--for <duration>', 'they come free by themselves after that', durationMs, 60_000)
    .action(acquire);
  connected(lock.command('release'))
    .description('give back what `lock acquire` took')
    .argument('<word>', 'what it printed')
    .action(release);
  connected(lock.command('break'))
    .description('take a lock from whoever holds it; they and the feed are told why')
    .argument('<name>')
    .requiredOption('--reason <text>', 'why')
    .action(breakLock);
  connected(lock.command('check'))
    .description('whether a fence holds a lock now; exit code 1 if not')
    .argument('<name>')
    .argument('<fence>', 'what its holder was given', whole(1, Number.MAX_SAFE_INTEGER))
    .action(async (name: string, fence: number, flags: ConnectionFlags) => {
      outcome.code = await check(name, fence, flags);
    });
}

async function list(prefix: string | undefined, flags: ConnectionFlags): Promise<void> {
  const wanted = prefix === undefined ? {} : { prefix };
  const locks = await withClient(flags, { session: false }, (client) =>
    allPages((cursor) => client.lock.list({ ...wanted, limit: 1000, ...cursor }), 'locks'),
  );
  if (flags.json) return printJson({ locks });
  if (locks.length === 0) return print('no locks');
  await printTable(['LOCK', 'IN USE', 'CAPACITY', 'WAITING', 'HELD BY', 'FOR', 'REASON'], locks.map(rowOf));
}

function rowOf({ name, inUse, capacity, waiting, holders }: Shown): unknown[] {
  const [first] = holders;
  const more = holders.length > 1 ? ` and ${inUse - 1 > holders.length - 1 ? 'more' : holders.length - 1}` : '';
  return [
    name,
    inUse,
    capacity,
    waiting,
    first && `${first.holder.agent}${more}`,
    first && ageOf(Math.max(0, Date.now() - Date.parse(first.sinceAt))),
    first?.reason,
  ];
}

/** The session that holds it is left, not closed: it lives on for its ttl, and whoever has its key goes on with it. */
async function acquire(names: string[], flags: ConnectionFlags & LockFlags & { for: number }): Promise<void> {
  const options = lockOptionsOf(flags, 'signalbox lock acquire');
  const client = await open(flags, { session: true, ttlMs: flags.for });
  try {
    const { grant, fence } = await new Promise<Lock>((resolve, reject) => {
      // The handler never ends: the lock is to outlive us.
      const forever = (lock: Lock): Promise<never> => {
        resolve(lock);
        return new Promise(() => {});
      };
      client.lock(names, options, forever).catch(reject);
    });
    const { session, key } = client.identity!;
    const word = [session, key, grant].join(':');
    await (flags.json ? printJson({ word, grant, fence, session, forMs: flags.for }) : print(word));
    client.leave();
  } finally {
    await client.close({ limitMs: 2000 });
  }
}

async function release(word: string, flags: ConnectionFlags): Promise<void> {
  const [, session, key, grant] = /^([^:]+):([^:]+):([^:]+)$/.exec(word) ?? [];
  if (!session || !key || !grant) {
    throw wrongUsage(
      `${JSON.stringify(word)} is no word of \`lock acquire\``,
      'to take a lock from others: lock break',
    );
  }
  const client = await open(flags, { session: true, resume: { session, key } });
  try {
    const { state } = await client.lock.release({ grant });
    await (flags.json ? printJson({ state }) : print(state));
  } catch (error) {
    if (!(error instanceof Refusal && error.code === 'NOT_OWNER')) throw error;
    throw new CliError('the lock is not held under this word any more', {
      advice: 'its time was over, or somebody broke it: `signalbox tail lock.lost --from all` tells',
    });
  } finally {
    await client.close({ limitMs: 2000 });
  }
}

async function breakLock(name: string, { reason, ...flags }: ConnectionFlags & { reason: string }): Promise<void> {
  const answer = await withClient(flags, { session: true }, (client) => client.lock.break({ name, reason }));
  if (flags.json) return printJson(answer);
  const agents = answer.broken.map(({ holder }) => visible(holder.agent));
  await print(agents.length === 0 ? `nobody held ${visible(name)}` : `taken from ${agents.join(', ')}`);
}

async function check(name: string, fence: number, flags: ConnectionFlags): Promise<number> {
  const answer = await withClient(flags, { session: false }, (client) => client.lock.check({ name, fence }));
  if (flags.json) await printJson(answer);
  else await print(answer.valid ? 'valid' : `not valid; ${saidOf(answer.current)}`);
  return answer.valid ? exit.ok : exit.failure;
}

/** A fence is remembered for a minute after the last use of its lock. */
const saidOf = (current: number): string =>
  current === 0 ? 'nobody holds it, and no fence of it is remembered' : `the last fence given is ${current}`;
