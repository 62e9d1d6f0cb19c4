import { Refusal } from '../errors.js';
import type { Client } from './connection.js';
import { metaKey } from './keys.js';
import type { Namespace } from './namespace.js';
import { lua } from './script.js';

/**
 * Stored-format version that this program reads and writes (turn.lua notes it with every change).
 * 1: a run as 27 values. 2: the values that every active task has come first, the rest is cut (lua/places.lua).
 */
const format = 2;

const runsScript = lua(import.meta.url, './upgrade.lua', ['queue', 'set', 'cursor', 'limit']);
const sets = ['waiting', 'scheduled', 'active', 'completed', 'windowed', 'cancelled', 'dead', 'expired'] as const;
const pageMax = 200;

/**
 * Brings what an older version has stored to the present format, before anything else reads it; refuses what a newer one
 * has. Page by page, and to be repeated from its beginning after a crash: the version is noted last.
 */
export async function upgrade(namespace: Namespace, client: Client): Promise<void> {
  const meta = metaKey(namespace.name);
  const stored = Number((await client.hget(meta, 'format')) ?? format);
  if (stored > format) {
    throw new Refusal(
      'UNAVAILABLE',
      `namespace ${namespace.name} is stored in format ${stored}; this daemon knows ${format}: run a newer one`,
    );
  }
  if (stored === format) return;
  for (let after = '-'; ; ) {
    const queues = await client.zrangebylex(`${namespace.prefix}queues`, after, '+', 'LIMIT', 0, pageMax);
    for (const queue of queues) for (const set of sets) await upgradeSet(namespace, queue, set);
    if (queues.length < pageMax) break;
    after = `(${queues.at(-1)}`;
  }
  await client.hset(meta, 'format', format);
}

async function upgradeSet(namespace: Namespace, queue: string, set: (typeof sets)[number]): Promise<void> {
  let cursor = '';
  do cursor = await namespace.read<string>(runsScript, [queue, set, cursor, pageMax]);
  while (cursor !== '');
}
