/** The clock that agents print: the same in every process of the machine, and never set. Milliseconds. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** How far two clocks of one machine may drift apart in a history: one of them is slewed, the other is not. */
export const slackMs = 5;

/**
 * How an instant of the log, in whole milliseconds of Redis' clock, reads on the clock of the agents. The smallest
 * difference is the true one: the wall clock is cut to milliseconds.
 */
export function logClock(): (at: number) => number {
  let offset = Number.POSITIVE_INFINITY;
  for (const until = now() + 3; now() < until; ) offset = Math.min(offset, now() - Date.now());
  return (at) => at + offset;
}
