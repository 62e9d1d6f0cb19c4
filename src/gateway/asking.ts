import type { Fresh } from '../queue/port.js';
import { type QueueTakers, serves, type Taker } from './worker.js';

/** Tasks that one script may hand out: with 200 items of its own it stays within its bound. */
export const tasksMax = 100;
/** Wants that one script may carry. */
export const wantsMax = 64;

/** What one taker is asked for in one script. */
export interface Row {
  readonly taker: Taker;
  readonly count: number;
  readonly generation: number;
}

/** Asks for who is free and has not found the queue empty; answers how many tasks. */
export function askEager(takers: QueueTakers, max: number, rows: Row[]): number {
  // In rounds: a worker of large credit must not take at once what its neighbours could do beside it.
  let asked = 0;
  const share = Math.max(1, Math.ceil(max / Math.min(takers.eager.size, wantsMax)));
  for (const taker of [...takers.eager]) {
    if (asked >= max || rows.length >= wantsMax) break;
    asked += push(takers, taker, Math.min(taker.free, share, max - asked), rows);
  }
  return asked;
}

/** Asks for those who had found nothing, because the script brings news. */
export function askIdle(takers: QueueTakers, news: Fresh, max: number, rows: Row[]): number {
  let asked = 0;
  const most = Math.min(max, news.tasks);
  const share = Math.max(1, Math.ceil(most / Math.min(takers.idle.size, wantsMax)));
  for (const taker of [...takers.idle]) {
    if (asked >= most || rows.length >= wantsMax) break;
    if (taker.kinds && ![...news.kinds].some((kind) => serves(taker, kind))) continue;
    const count = Math.min(taker.free, share, most - asked);
    // Its socket is blocked: when it is not it asks, as somebody who has heard of the news.
    if (count <= 0) taker.dry = false;
    asked += push(takers, taker, count, rows);
  }
  return asked;
}

function push(takers: QueueTakers, taker: Taker, count: number, rows: Row[]): number {
  if (count <= 0) {
    takers.sort(taker); // Its socket has stopped to take anything.
    return 0;
  }
  taker.pending += count;
  rows.push({ taker, count, generation: takers.generation });
  takers.sort(taker);
  return count;
}

/** Script arguments of redis/lua/claim.lua. */
export function wantArgs(rows: readonly Row[]): (string | number)[] {
  const args: (string | number)[] = [rows.length];
  for (const { taker, count } of rows) {
    const { session, name, queue, kinds, leaseMs, room } = taker;
    args.push(
      session.id,
      session.binding,
      name,
      queue,
      kinds ? kinds.join('\0') : '',
      leaseMs ?? '',
      count,
      room ?? '',
    );
  }
  return args;
}
