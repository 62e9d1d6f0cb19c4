import type { Position } from '../protocol/position.js';
import { LogEntry } from './log-entry.js';
import { type Epoch, judge, type LogView, tailOf, type Verdict } from './log-view.js';
import type { Namespace } from './namespace.js';
import { lua } from './script.js';

export const readLog = lua(import.meta.url, './read-log.lua', ['after', 'countMax', 'bytesMax']);
export const touchLog = lua(import.meta.url, './touch.lua');

/** Entries behind a position and what the log said of it in the same moment. */
export interface LogPage {
  readonly view: LogView;
  readonly verdict: Verdict;
  /** Only behind a position that is `ok`: without a hole, the first may have begun before it. */
  readonly entries: readonly LogEntry[];
}

export interface PageBounds {
  readonly entries: number;
  readonly bytes: number;
}

type Reply = [epoch: string, head: string, tail: string, epochs: string[], entries: [string, string[]][]];

/** `source` of a namespace's own events, as JSON text. */
export const ownSource = (namespace: string): string => `"/signalbox/${namespace}"`;

/** Reads on behind `after`. A log that is empty of everything, its counters included, begins its epoch here. */
export async function readPage(namespace: Namespace, after: Position, bounds: PageBounds): Promise<LogPage> {
  const ask = (): Promise<Reply | null> =>
    namespace.read<Reply | null>(readLog, [after.offset, bounds.entries, bounds.bytes]);
  let reply = await ask();
  if (!reply) {
    await namespace.call(touchLog);
    reply = await ask();
  }
  if (!reply) throw new Error('the log vanished while it was read');
  return toPage(reply, after, ownSource(namespace.name));
}

function toPage([epoch, head, tail, flat, rows]: Reply, after: Position, source: string): LogPage {
  const stored: LogView = { epoch, head: Number(head), tail: Number(tail), epochs: pairs(flat) };
  const verdict = judge(after, stored);
  if (verdict.kind !== 'ok') return { view: stored, verdict, entries: [] };
  const entries = rows.map(([id, fields]) => new LogEntry(id, fields, source));
  // Somebody cut the stream behind our back (XTRIM, DEL by hand): the counters do not know, the hole does.
  const hole = entries[0] ? entries[0].first - 1 : stored.head;
  const view = hole > after.offset ? { ...stored, tail: hole } : stored;
  if (view === stored) return { view, verdict, entries };
  return {
    view,
    verdict: { kind: 'lost', reason: 'trimmed', unknown: false, to: tailOf(view), lost: hole - after.offset },
    entries: [],
  };
}

export function pairs(flat: readonly string[]): Epoch[] {
  const epochs: Epoch[] = [];
  for (let i = 0; i < flat.length; i += 2) epochs.push({ epoch: flat[i]!, first: Number(flat[i + 1]) });
  return epochs;
}
