import { setTimeout as wait } from 'node:timers/promises';

/** Of several rounds the one in the middle: a machine that others use makes means and bests worthless. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)]!;
  return low + (sorted[Math.ceil(at)]! - low) * (at % 1);
}

/** How far the rounds lie apart, as a share of their median: what the reader may make of a small difference. */
export function spread(values: readonly number[]): number {
  return (percentile(values, 0.9) - percentile(values, 0.1)) / median(values);
}

/** Runs `task` `count` times, at most `width` at once. */
export async function inFlight(count: number, width: number, task: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await task(next++);
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
}

/** Calls `call` `count` times, one after the other: every `everyMs` if given, whatever it takes, else without a pause. */
export async function inTime(count: number, everyMs: number | undefined, call: () => Promise<unknown>): Promise<void> {
  const startedAt = performance.now();
  for (let i = 0; i < count; i++) {
    if (everyMs !== undefined) await wait(Math.max(0, startedAt + i * everyMs - performance.now()));
    await call();
  }
}

export async function seconds(run: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return (performance.now() - startedAt) / 1000;
}
