/**
 * Locks as simple as they can be said: a list of holders, a list of waiters, and every rule as a search through both. What
 * the scripts do with nodes, classes and queues must come to the same.
 */
export interface Want {
  readonly name: string;
  readonly shared: boolean;
  /** Of a semaphore. */
  readonly permits: number | undefined;
}

export interface Request {
  readonly grant: string;
  readonly session: string;
  readonly wants: readonly Want[];
}

const segmentsOf = (path: string): string[] => {
  const segments = path.slice('path:'.length).split('/');
  return segments.at(-1) === '**' ? segments.slice(0, -1) : segments;
};
const isPath = (name: string): boolean => name.startsWith('path:');

/** One is the other, or lies below it. */
function overlaps(one: string, other: string): boolean {
  if (!isPath(one) || !isPath(other)) return one === other;
  const [a, b] = [segmentsOf(one), segmentsOf(other)];
  return (
    a.slice(0, b.length).every((segment, i) => segment === b[i]) ||
    b.slice(0, a.length).every((segment, i) => segment === a[i])
  );
}

export class Model {
  holders: Request[] = [];
  waiters: Request[] = [];
  readonly capacities: ReadonlyMap<string, number>;

  constructor(capacities: ReadonlyMap<string, number>) {
    this.capacities = capacities;
  }

  /** Two requests that could never stand beside each other; of semaphores: that share one. */
  #conflicts(one: Request, other: Request): boolean {
    return one.wants.some((a) =>
      other.wants.some((b) => overlaps(a.name, b.name) && (this.capacities.has(a.name) || !a.shared || !b.shared)),
    );
  }

  #fits(request: Request): boolean {
    return request.wants.every((want) => {
      const capacity = this.capacities.get(want.name);
      if (capacity === undefined) {
        return !this.holders.some((holder) =>
          holder.wants.some((held) => overlaps(held.name, want.name) && !(held.shared && want.shared)),
        );
      }
      const used = this.holders.flatMap((holder) => holder.wants).filter((held) => held.name === want.name);
      return used.reduce((sum, held) => sum + held.permits!, 0) + want.permits! <= capacity;
    });
  }

  #may(request: Request, earlier: readonly Request[]): boolean {
    return this.#fits(request) && !earlier.some((waiter) => this.#conflicts(waiter, request));
  }

  /** `held`, `waiting`, or `refused` if it may not wait. */
  acquire(request: Request, waits: boolean): 'held' | 'waiting' | 'refused' {
    if (this.#may(request, this.waiters)) {
      this.holders.push(request);
      return 'held';
    }
    if (!waits) return 'refused';
    this.waiters.push(request);
    return 'waiting';
  }

  /** Ends a hold or a wait; answers who has been granted by it. */
  end(grant: string): string[] {
    this.holders = this.holders.filter((one) => one.grant !== grant);
    this.waiters = this.waiters.filter((one) => one.grant !== grant);
    return this.settle();
  }

  settle(): string[] {
    const granted: string[] = [];
    for (let found = true; found; ) {
      found = false;
      for (const [i, waiter] of this.waiters.entries()) {
        if (!this.#may(waiter, this.waiters.slice(0, i))) continue;
        this.waiters.splice(i, 1);
        this.holders.push(waiter);
        granted.push(waiter.grant);
        found = true;
        break;
      }
    }
    return granted;
  }
}
