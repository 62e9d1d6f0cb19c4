import type { Position } from '../protocol/position.js';
import type { LogGap } from './log-entry.js';

export interface Epoch {
  readonly epoch: string;
  /** Offset of its first event. */
  readonly first: number;
}

/** What the log looks like at one moment. Everything behind `tail`, up to `head`, can be read. */
export interface LogView {
  readonly epoch: string;
  readonly head: number;
  readonly tail: number;
  /** Those still known, oldest first; the last is `epoch`. */
  readonly epochs: readonly Epoch[];
}

export type Verdict =
  | { readonly kind: 'ok' }
  /** Never a position of this log. */
  | { readonly kind: 'bad' }
  | {
      readonly kind: 'lost';
      readonly reason: 'trimmed' | 'fork' | 'ahead';
      /** The epoch is not known at all: another store, or one that was emptied. */
      readonly unknown: boolean;
      /** Where one can go on. */
      readonly to: Position;
      readonly lost?: number;
    };

/** `offset` as a position: of the epoch that the event behind it belongs to. */
export function positionAt(offset: number, view: LogView): Position {
  const epoch = view.epochs.findLast(({ first }) => first <= offset + 1)?.epoch ?? view.epochs[0]?.epoch ?? view.epoch;
  return { epoch, offset };
}

export const headOf = (view: LogView): Position => ({ epoch: view.epoch, offset: view.head });
export const tailOf = (view: LogView): Position => positionAt(view.tail, view);

/**
 * What a position means to this log. A rewound log hands out offsets again, so an offset counts only within its epoch:
 * in an earlier one it must lie below the first of the next. `lost` of a fork are the events its holder has handled
 * and the log has no longer.
 */
export function judge(place: Position, view: LogView): Verdict {
  const at = view.epochs.findIndex(({ epoch }) => epoch === place.epoch);
  if (at < 0) return { kind: 'lost', reason: 'fork', unknown: true, to: tailOf(view) };
  const { first } = view.epochs[at]!;
  if (place.offset < first - 1) return { kind: 'bad' };
  const next = view.epochs[at + 1];
  if (next && place.offset >= next.first) {
    const fork = next.first - 1;
    const to = fork < view.tail ? tailOf(view) : { epoch: next.epoch, offset: fork };
    return { kind: 'lost', reason: 'fork', unknown: false, to, lost: place.offset - fork + to.offset - fork };
  }
  if (place.offset > view.head) return { kind: 'lost', reason: 'ahead', unknown: false, to: headOf(view) };
  if (place.offset < view.tail) {
    return { kind: 'lost', reason: 'trimmed', unknown: false, to: tailOf(view), lost: view.tail - place.offset };
  }
  return { kind: 'ok' };
}

/** The verdict on a cursor that was at `from` a moment ago, as the gap its holder is told of. */
export function toGap(from: Position, verdict: Exclude<Verdict, { kind: 'ok' }>, view: LogView): LogGap {
  if (verdict.kind === 'bad') return { kind: 'gap', reason: 'reset', from, to: tailOf(view) };
  const { to, lost } = verdict;
  const reason = verdict.reason === 'trimmed' ? 'trimmed' : verdict.unknown ? 'reset' : 'fork';
  return { kind: 'gap', reason, from, to, ...(lost === undefined ? {} : { lost }) };
}
