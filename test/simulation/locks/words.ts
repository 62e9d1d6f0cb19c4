/** One lock of a request: a name, and how. */
export interface Want {
  readonly name: string;
  readonly mode?: 'exclusive' | 'shared';
  readonly permits?: number;
}

/** Permits there are of each semaphore; every other name is a read/write lock. */
export type Capacities = ReadonlyMap<string, number>;

const segmentsOf = (path: string): string[] => {
  const segments = path.slice('path:'.length).split('/');
  return segments.at(-1) === '**' ? segments.slice(0, -1) : segments;
};

/** One is the other, or lies below it. */
export function overlaps(one: string, other: string): boolean {
  if (!one.startsWith('path:') || !other.startsWith('path:')) return one === other;
  const [a, b] = [segmentsOf(one), segmentsOf(other)];
  const shorter = Math.min(a.length, b.length);
  return a.slice(0, shorter).every((segment, i) => segment === b[i]);
}

const shared = ({ mode }: Want): boolean => mode === 'shared';

/** Could not stand beside each other; of semaphores: share one, so that the later gives way. */
export function givesWay(one: readonly Want[], other: readonly Want[], capacities: Capacities): boolean {
  return one.some((a) =>
    other.some((b) => overlaps(a.name, b.name) && (capacities.has(a.name) || !shared(a) || !shared(b))),
  );
}

/** What is wrong with these being held at one time; undefined if nothing. */
export function clash(held: readonly (readonly Want[])[], capacities: Capacities): string | undefined {
  for (const [i, one] of held.entries()) {
    for (const a of one) {
      const capacity = capacities.get(a.name);
      if (capacity !== undefined) {
        const used = held.flat().filter(({ name }) => name === a.name);
        const sum = used.reduce((total, { permits = 1 }) => total + permits, 0);
        if (sum > capacity) return `${sum} permits of ${a.name}, which has ${capacity}`;
        continue;
      }
      for (const other of held.slice(i + 1)) {
        for (const b of other) {
          if (overlaps(a.name, b.name) && !(shared(a) && shared(b))) return `${say(a)} beside ${say(b)}`;
        }
      }
    }
  }
  return undefined;
}

const say = ({ name, mode = 'exclusive' }: Want): string => `${name} (${mode})`;
