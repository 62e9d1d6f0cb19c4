import { type Capacities, clash, givesWay, type Want } from '../locks/words.js';
import type { Model, Op } from './search.js';

/** What was done to one lock, or to paths that lie in each other. */
export type LockOp = Op & { readonly agent: string } & (
    | { readonly what: 'take'; readonly grant: string; readonly wants: readonly Want[]; readonly fence: number }
    /** However it ended; of an end that nobody asked for, only the earliest moment may be known. */
    | { readonly what: 'end'; readonly grant: string }
    /** Refused at once, because somebody was in the way. */
    | { readonly what: 'busy'; readonly wants: readonly Want[] }
    /** Stood in the queue for some of this time: in the way of whoever comes later. */
    | { readonly what: 'wait'; readonly wants: readonly Want[] }
  );

export interface LockState {
  readonly held: ReadonlyMap<string, readonly Want[]>;
  readonly fence: number;
}

/** Holders that fit together, under fences that rise; who is refused met a holder or somebody who waits. */
export function lockModel(capacities: Capacities): Model<LockState, LockOp> {
  const stands = (held: LockState['held'], wants: readonly Want[]): boolean =>
    clash([...held.values(), wants], capacities) === undefined;
  return {
    init: { held: new Map(), fence: 0 },
    key: ({ held, fence }) => `${fence} ${[...held.keys()].sort().join()}`,
    step({ held, fence }, op, open) {
      if (op.what === 'take') {
        if (held.has(op.grant) || op.fence <= fence || !stands(held, op.wants)) return undefined;
        return { held: new Map(held).set(op.grant, op.wants), fence: op.fence };
      }
      if (op.what === 'end') {
        if (!held.has(op.grant)) return undefined;
        const left = new Map(held);
        left.delete(op.grant);
        return { held: left, fence };
      }
      // Nothing comes of a wait being over, so one without an end just stays.
      if (op.what === 'wait') return op.ret < Number.POSITIVE_INFINITY ? { held, fence } : undefined;
      const isFree =
        stands(held, op.wants) &&
        !open.some((other) => other.what === 'wait' && givesWay(op.wants, other.wants, capacities));
      return isFree ? undefined : { held, fence };
    },
  };
}
