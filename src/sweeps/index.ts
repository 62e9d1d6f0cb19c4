import type { Memory } from '../backpressure/memory.js';
import type { Config } from '../config.js';
import { giveBack } from '../lease/session-close.js';
import { queuesScript } from '../queue/stats.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { runOnce as forgetPublished } from './forget-published.js';
import { runOnce as trimLog } from './trim-log.js';

const promoteScript = lua(import.meta.url, './promote.lua');
const expireTasksScript = lua(import.meta.url, './expire-tasks.lua', ['cancelGraceMs', 'jitter']);
const expireSessionsScript = lua(import.meta.url, '../lease/expire.lua');
const lockDueScript = lua(import.meta.url, './lock-due.lua');
const limitDueScript = lua(import.meta.url, './limit-due.lua');
const onceDueScript = lua(import.meta.url, './once-due.lua');
const retentionScript = lua(import.meta.url, './retention.lua', [
  'queue',
  'completedAgeMs',
  'completedCount',
  'deadAgeMs',
  'deadCount',
]);
const tidyScript = lua(import.meta.url, './tidy-queue.lua', ['queue']);
const daemonsScript = lua(import.meta.url, './daemons.lua', ['leaving']);

/**
 * What the clock does, as a table: each answers milliseconds until it should run again before its turn, or undefined.
 * Every one is idempotent and may run on any number of daemons at once; every script in them is bounded.
 */
export type Sweep = (namespace: Namespace, config: Config) => Promise<number | undefined>;

const soon = (text: string): number | undefined => (text === '' ? undefined : Number(text));

/** Scheduled tasks come due, pauses end. */
const promote: Sweep = async (namespace) => soon((await namespace.call<[string]>(promoteScript))[0]);

/** startBy, deadlines, timeouts, own leases, graces of cancels. */
const expireTasks: Sweep = async (namespace, { queue }) =>
  soon((await namespace.call<[string]>(expireTasksScript, [queue.cancelGraceMs, Math.random()]))[0]);

/** Waits for locks that are over, own leases, longest holds, delays. */
const lockDue: Sweep = async (namespace) => soon((await namespace.call<[string]>(lockDueScript))[0]);

/** Leases of reservations, waits that are over, refills that free a waiter. */
const limitDue: Sweep = async (namespace) => soon((await namespace.call<[string]>(limitDueScript))[0]);

/** Leases of once keys, and records past their keep. */
const onceDue: Sweep = async (namespace) => soon((await namespace.call<[string]>(onceDueScript))[0]);

/** Sessions past their deadline, and what ended ones leave behind. */
const expireSessions: Sweep = async (namespace) => {
  const [ended, next] = await namespace.call<[number, string]>(expireSessionsScript);
  const rest = await giveBack(namespace);
  if (ended > 0 || rest.more) return 0;
  return Math.min(soon(next) ?? Number.POSITIVE_INFINITY, rest.nextMs ?? Number.POSITIVE_INFINITY);
};

/** Finished tasks past their keeping, and queues nobody uses. Goes through all queues, a page at a time. */
const retention: Sweep = async (namespace, { queue: settings }) => {
  const { completedAgeMs, completedCount, deadAgeMs, deadCount } = settings;
  let more = false;
  for (let after = ''; ; ) {
    const names = await namespace.read<string[]>(queuesScript, [after, 100]);
    for (const name of names) {
      const args = [name, completedAgeMs, completedCount, deadAgeMs, deadCount];
      const [left] = await namespace.call<[number]>(retentionScript, args);
      more ||= left === 1;
      await namespace.call(tidyScript, [name]);
    }
    if (names.length < 100) break;
    after = names.at(-1)!;
  }
  return more ? 0 : undefined;
};

/** The log within its bounds, forgotten publishers' ids, and this daemon's sign of life. */
const housekeeping: Sweep = async (namespace, config) => {
  await namespace.call(daemonsScript, ['']);
  await trimLog(namespace, config.log);
  await forgetPublished(namespace, config.log);
  return undefined;
};

export const sweeps = { promote, expireTasks, expireSessions, lockDue, limitDue, onceDue, retention, housekeeping };

/** Near Redis' memory limit the log goes first: it is trimmed, and readers hear of it by their gap. */
export async function watchMemory(memory: Memory, namespace: Namespace, { log }: Config): Promise<number | undefined> {
  const bytesMax = await memory.measure();
  if (bytesMax === undefined) return undefined;
  await trimLog(namespace, { ...log, bytesMax });
  await memory.measure();
  return undefined;
}

/** The last sign of a daemon that stops. */
export async function leave(namespace: Namespace): Promise<void> {
  await namespace.call(daemonsScript, ['1']);
}
