import { Refusal } from '../errors.js';
import type { PutItem } from './items.js';

export interface PutResult {
  /** `ready`, `scheduled`, `=<state> <task>` for a deduplicated one, `!CODE {json}` for a refused one. */
  readonly text: string;
  /** Of the queue it was put into, or would have been. */
  readonly pressure: QueuePressure;
}

export interface QueuePressure {
  readonly level: number;
  readonly delayMs?: number;
  /** The queue has admission: its producers are told when its level changes. */
  readonly told?: boolean;
}

/** queue, level, advised delay or '', 1 where admission is on: rows of puts.pressure in redis/lua/put.lua. */
export type PressureRow = [string, number, number | '', number];
const calm: QueuePressure = { level: 0 };

/** Of a task that Redis had no room for. */
export const putOfFull: PutResult = {
  text: '!OVERLOADED {"message":"Redis is at its memory limit","scope":"memory","afterMs":1000}',
  pressure: { level: 3, delayMs: 1000 },
};
/** Of a completion beside it: as the script says where it comes to decide. */
export const withheldText = '!CONFLICT {"message":"another item of the request was refused; nothing was done"}';
/** Redis refused a script before it began: nothing of it happened. */
export const isFull = (error: unknown): boolean => error instanceof Refusal && error.details?.redis === 'OOM';

export function withPressure(
  items: readonly PutItem[],
  results: readonly string[],
  rows: readonly PressureRow[],
): PutResult[] {
  if (rows.length === 0) return results.map((text) => ({ text, pressure: calm }));
  const known = new Map(
    rows.map(([queue, level, delay, told]) => [
      queue,
      { level, ...(delay === '' ? {} : { delayMs: delay }), told: told === 1 },
    ]),
  );
  return results.map((text, i) => ({ text, pressure: known.get(items[i]!.queue) ?? calm }));
}
