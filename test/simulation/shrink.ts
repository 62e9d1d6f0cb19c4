/** True if a history made of these steps, by their numbers, still fails. */
export type Fails = (kept: readonly number[]) => Promise<boolean>;

/**
 * Delta debugging: leaves out ever smaller parts as long as what remains still fails. Real processes do not fail every
 * time, so a part is given up only if `tries` runs without it passed. Stops after `runsMax` runs with the best so far.
 */
export async function shrink(
  count: number,
  fails: Fails,
  options: { tries: number; runsMax: number },
): Promise<number[]> {
  let kept = Array.from({ length: count }, (_, i) => i);
  let runs = 0;
  const stillFails = async (candidate: readonly number[]): Promise<boolean> => {
    for (let i = 0; i < options.tries && runs < options.runsMax; i++) {
      runs++;
      if (await fails(candidate)) return true;
    }
    return false;
  };
  for (let parts = 2; kept.length > 1 && runs < options.runsMax; ) {
    const size = Math.ceil(kept.length / parts);
    let smaller: number[] | undefined;
    for (let from = 0; from < kept.length && !smaller; from += size) {
      const without = [...kept.slice(0, from), ...kept.slice(from + size)];
      if (without.length > 0 && (await stillFails(without))) smaller = without;
    }
    if (smaller) {
      kept = smaller;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) break;
    else parts = Math.min(kept.length, parts * 2);
  }
  return kept;
}
