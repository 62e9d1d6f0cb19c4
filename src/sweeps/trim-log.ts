import type { Config } from '../config.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

export const trimLog = lua(import.meta.url, './trim-log.lua', ['ageMaxMs', 'bytesMax', 'stepMax']);

const stepMax = 20_000;
const stepsMax = 100;

/** Trims the log of a namespace by age, bytes and count; answers how many events went. */
export async function runOnce(
  namespace: Namespace,
  log: Pick<Config['log'], 'ageMaxMs' | 'bytesMax'>,
): Promise<number> {
  let sum = 0;
  for (let step = 0; step < stepsMax; step++) {
    const [moved, more] = await namespace.call<[string, number]>(trimLog, [log.ageMaxMs, log.bytesMax, stepMax]);
    sum += Number(moved);
    if (more === 0) break;
  }
  return sum;
}
