interface Joins {
  passed(): Promise<void>;
}

/**
 * Before a client ends its session. What it said in the same breath, its last completions and settles, waits here to be
 * joined with those of others: an end that went to Redis ahead of them would make them stale, charge the attempts and
 * have the work done again.
 */
export async function lastWords({
  queues,
  locks,
  limits,
}: Record<'queues' | 'locks' | 'limits', Joins>): Promise<void> {
  // Commands that were begun in this turn have reached their joiner.
  await new Promise((resolve) => setImmediate(resolve));
  await Promise.all([queues.passed(), locks.passed(), limits.passed()]);
}
