import type { Config } from '../config.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

export const forgetPublished = lua(import.meta.url, './forget-published.lua', ['windowMs', 'pageMax']);

const pageMax = 1000;
const pagesMax = 100;

/** Forgets source and id of events published longer than the window ago; answers how many. */
export async function runOnce(namespace: Namespace, log: Pick<Config['log'], 'publishWindowMs'>): Promise<number> {
  let sum = 0;
  for (let page = 0; page < pagesMax; page++) {
    const count = await namespace.call<number>(forgetPublished, [log.publishWindowMs, pageMax]);
    sum += count;
    if (count < pageMax) break;
  }
  return sum;
}
