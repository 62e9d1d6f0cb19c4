import { type Amounts, Ended, type Lock, type LockOptions, Refusal, type Signalbox } from '../client/index.js';
import { CliError, wrongUsage } from './exit.js';
import { visible } from './output.js';

/** What a command runs under: locks that are taken in one step, then an amount of a limit. */
export interface Wanted {
  readonly locks: readonly string[];
  readonly limit?: string;
  /** How much of which dimension; left out, one of `concurrency` and of `requests`, as far as the limit has them. */
  readonly cost?: Amounts;
  readonly options: LockOptions & { readonly waitMs: number };
  /** Ends the waiting. */
  readonly signal: AbortSignal;
  readonly tell: (line: string) => void;
}

export interface Held {
  readonly what: string;
  readonly signal: AbortSignal;
}

type Under = (held: readonly Held[], lock?: Lock) => Promise<number>;
/** What is left of the time to wait, over all there is to wait for. */
type Turn = Wanted & { left(): number };

/** The lock comes first: who waits for a lock takes nothing of a limit meanwhile, and all wait in the same order. */
export async function hold(client: Signalbox, wanted: Wanted, under: Under): Promise<number> {
  const until = performance.now() + wanted.options.waitMs;
  const turn = { ...wanted, left: () => Math.max(0, Math.ceil(until - performance.now())) };
  const { limit } = wanted;
  if (limit === undefined) return withLocks(client, turn, under);
  const cost = wanted.cost ?? (await usualCost(client, limit));
  return withLocks(client, turn, (held, lock) =>
    withLimit(client, turn, { limit, cost, held }, (all) => under(all, lock)),
  );
}

async function withLocks(client: Signalbox, turn: Turn, under: Under): Promise<number> {
  const { locks, options, signal } = turn;
  if (locks.length === 0) return under([]);
  const names = locks.map(visible).join(', ');
  const what = `the lock ${names}`;
  const take = (waitMs: number): Promise<number> =>
    client.lock(locks, { ...options, waitMs, signal }, (lock) => under([{ what, signal: lock.signal }], lock));
  try {
    return await inTurn('HELD', names, take, turn);
  } catch (error) {
    throw error instanceof Ended ? lost(what, error) : error;
  }
}

async function withLimit(
  client: Signalbox,
  turn: Turn,
  { limit, cost, held }: { limit: string; cost: Amounts; held: readonly Held[] },
  under: Under,
): Promise<number> {
  const what = `what was reserved of the limit ${visible(limit)}`;
  // Nobody waits on for a limit whose lock is gone.
  const signal = AbortSignal.any([turn.signal, ...held.map((one) => one.signal)]);
  const take = (waitMs: number): Promise<number> =>
    client.limit(limit, cost, { waitMs, signal }, async (call) => {
      const code = await under([...held, { what, signal: call.signal }]);
      if (call.signal.aborted) throw call.signal.reason;
      return code;
    });
  try {
    return await inTurn('LIMITED', `the limit ${visible(limit)}`, take, turn);
  } catch (error) {
    // A lost lock ends this, too, and is what is told then.
    const first = held.find((one) => one.signal.aborted);
    if (first) throw first.signal.reason;
    throw error instanceof Ended ? lost(what, error) : error;
  }
}

/** Tries first without waiting: the refusal says who is in the way. */
async function inTurn(
  busy: 'HELD' | 'LIMITED',
  what: string,
  take: (waitMs: number) => Promise<number>,
  { options, tell, left }: Turn,
): Promise<number> {
  try {
    return await take(0);
  } catch (error) {
    if (!(error instanceof Refusal && error.code === busy) || options.waitMs === 0) throw error;
    tell(`waiting for ${what}${inTheWay(error)}`);
  }
  return take(left());
}

function inTheWay({ details }: Refusal): string {
  const { holder, reason } = (details ?? {}) as { holder?: { agent: string }; reason?: string };
  if (!holder) return '';
  return `: ${visible(holder.agent)} is ahead${reason === undefined ? '' : ` (${visible(reason)})`}`;
}

async function usualCost(client: Signalbox, name: string): Promise<Amounts> {
  const { dimensions } = await client.limit.get({ name });
  const usual = ['concurrency', 'requests'].filter((dimension) => Object.hasOwn(dimensions, dimension));
  if (usual.length > 0) return Object.fromEntries(usual.map((dimension) => [dimension, 1]));
  const known = Object.keys(dimensions);
  throw wrongUsage(
    `the limit ${name} has neither concurrency nor requests`,
    `say what the command takes of ${known.join(', ')}: --cost ${known[0]}=1`,
  );
}

const lost = (what: string, { reason }: Ended): CliError =>
  new CliError(`${what} was lost (${reason}) while the command ran`);
