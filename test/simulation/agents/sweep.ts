/** Somebody had something from one moment to another, and knew it. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** What `wrong` says of those who surely have something at one time, at every moment at which another one joins them. */
export function overlapsOf<I extends Interval>(
  intervals: readonly I[],
  wrong: (active: readonly I[]) => string | undefined,
  show: (interval: I) => string,
): string[] {
  // At one instant ends come first: an interval of no length overlaps nothing.
  const moments = intervals
    .filter(({ from, to }) => to > from)
    .flatMap((interval) => [
      { at: interval.from, begins: true, interval },
      { at: interval.to, begins: false, interval },
    ])
    .sort((a, b) => a.at - b.at || Number(a.begins) - Number(b.begins));
  const problems: string[] = [];
  const active = new Set<I>();
  for (const { begins, interval } of moments) {
    if (!begins) {
      active.delete(interval);
      continue;
    }
    active.add(interval);
    const what = wrong([...active]);
    if (what) problems.push(`surely held at one time: ${what}: ${[...active].map(show).join(' and ')}`);
  }
  return problems;
}
