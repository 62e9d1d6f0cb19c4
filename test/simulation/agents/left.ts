import { setTimeout as wait } from 'node:timers/promises';
import { namespace, type World } from '../world.js';

/**
 * With everybody gone nothing is left: no key of these kinds that does not end by itself, and nothing that `more` finds.
 * Killed agents end with their ttl, so it is looked for until then.
 */
export async function leftIn(
  { admin }: World,
  kinds: readonly string[],
  more: (at: string, keys: readonly string[]) => Promise<readonly string[]>,
): Promise<string[]> {
  const at = `sb:{${namespace}}:`;
  let left: string[] = [];
  for (const until = Date.now() + 10_000; Date.now() < until; await wait(50)) {
    const keys = await admin.keys(`${at}*`);
    const kept = keys.filter((key) => kinds.some((kind) => key.startsWith(`${at}${kind}:`)));
    const ttls = await Promise.all(kept.map((key) => admin.pttl(key)));
    left = [...kept.filter((_, i) => ttls[i] === -1), ...(await more(at, keys))];
    if (left.length === 0) return [];
  }
  return [`left at the end: ${left.slice(0, 10).join(', ')}`];
}
