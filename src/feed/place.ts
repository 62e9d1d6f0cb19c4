import { z } from 'zod';
import { Refusal } from '../errors.js';
import { formatPosition, type Position, PositionText, parsePosition } from '../protocol/position.js';
import { Instant } from '../protocol/primitives.js';
import type { LogGap } from '../redis/log-entry.js';
import { pairs } from '../redis/log-page.js';
import { headOf, judge, type LogView, positionAt, tailOf, type Verdict } from '../redis/log-view.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const placeScript = lua(import.meta.url, './place.lua', ['atMs']);

/** Where to begin: the head, the tail, a position, an instant, or so many events before the head. */
export const From = z.union([
  PositionText,
  z.strictObject({ at: Instant }),
  z.strictObject({ last: z.int().min(0).max(Number.MAX_SAFE_INTEGER) }),
]);
export type From = z.output<typeof From>;

export interface Place {
  readonly at: Position;
  readonly head: Position;
  /** What lies between what was asked for and `at`, when the caller would rather go on than be refused. */
  readonly gap?: LogGap;
}

/** Asks Redis, not the daemon's own reader, which may lag: nothing that is written after the answer can be missed. */
export async function findPlace(namespace: Namespace, from: From, onGap: 'error' | 'skip'): Promise<Place> {
  const atMs = typeof from === 'object' && 'at' in from ? Date.parse(from.at) : '';
  type Reply = [epoch: string, head: string, tail: string, epochs: string[], place: string];
  const [epoch, head, tail, epochs, place] = await namespace.call<Reply>(placeScript, [atMs]);
  const view: LogView = { epoch, head: Number(head), tail: Number(tail), epochs: pairs(epochs) };
  const found = (at: Position): Place => ({ at, head: headOf(view) });
  if (from === 'new') return found(headOf(view));
  if (from === 'all') return found(tailOf(view));
  if (typeof from === 'object') {
    return found(positionAt('at' in from ? Number(place) : Math.max(view.tail, view.head - from.last), view));
  }
  const at = toPosition(from);
  const verdict = judge(at, view);
  if (verdict.kind === 'ok') return found(at);
  if (verdict.kind === 'bad' || onGap === 'error') throw refusalOf(verdict, view);
  const { reason, to, lost } = verdict;
  const gap: LogGap = {
    kind: 'gap',
    reason: reason === 'trimmed' ? 'trimmed' : 'fork',
    from: at,
    to,
    ...(lost === undefined ? {} : { lost }),
  };
  return { ...found(to), gap };
}

/** Checked, if it is one and no word or instant. */
export function isPosition(from: From): from is string {
  return typeof from === 'string' && from !== 'new' && from !== 'all' && toPosition(from) !== undefined;
}

/** Of a namespace without a log. */
export const positionUnknown = (): Refusal =>
  new Refusal('POSITION_LOST', 'nobody has opened this namespace', { details: { reason: 'fork' } });

export function toPosition(text: string): Position {
  const position = parsePosition(text);
  if (!position) throw new Refusal('BAD_POSITION', `${JSON.stringify(text)} is not epoch:offset`);
  return position;
}

export function refusalOf(verdict: Exclude<Verdict, { kind: 'ok' }>, view: LogView): Refusal {
  if (verdict.kind === 'bad') return new Refusal('BAD_POSITION', 'the position lies before the beginning of its epoch');
  const { reason, lost } = verdict;
  const details = {
    reason,
    tail: formatPosition(tailOf(view)),
    head: formatPosition(headOf(view)),
    ...(lost === undefined ? {} : { lost }),
  };
  return new Refusal('POSITION_LOST', `the log no longer holds this position (${reason})`, { details });
}
