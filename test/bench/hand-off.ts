import { setTimeout as wait } from 'node:timers/promises';

/** A lock that somebody has: told when, and how it is given back. */
export interface Held {
  readonly at: number;
  giveBack(): void;
}

/**
 * Two who take turns with a lock; answers how long after each giving back the other one was told. `waiting` resolves
 * when the other one surely waits; the pause after that is each side's own, see there.
 */
export async function handOffs(
  samples: number,
  hold: (who: 0 | 1) => Promise<Held>,
  waiting: () => Promise<void>,
  pauseMs: () => number,
): Promise<number[]> {
  const took: number[] = [];
  let held = await hold(0);
  for (let i = 1; i <= samples; i++) {
    const next = hold((i % 2) as 0 | 1);
    await waiting();
    await wait(pauseMs());
    const startedAt = performance.now();
    held.giveBack();
    held = await next;
    took.push(held.at - startedAt);
  }
  held.giveBack();
  return took;
}
