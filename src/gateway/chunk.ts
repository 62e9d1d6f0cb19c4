import type { Position } from '../protocol/position.js';
import type { LogEntry, LogEvent } from '../redis/log-entry.js';
import type { FilterGroup } from './filter-group.js';

/** One message for every member of a group that stands at one place. */
export interface Chunk {
  /** Everything up to here is in the chunk or matched nothing. */
  readonly to: number;
  readonly lines: number;
  /** Offset of the last line. */
  readonly last: number;
  /** Absent when nothing matched. */
  readonly bytes: Buffer | undefined;
}

export interface ChunkBounds {
  readonly lines: number;
  readonly lineBytes: number;
}

/** Entries in order, from the ring or from a page. */
export interface EntrySource {
  at(index: number): LogEntry | undefined;
}

/** Most events looked at for one chunk, so that a pattern that matches nothing does not hold up the loop. */
const scanMax = 10_000;

const utf8Most = 3;

/** Cuts `events` into chunks. `from` and `to` are the places before the first and behind the last event. */
export function cut(events: readonly LogEvent[], to: number, bounds: ChunkBounds): Chunk[] {
  const chunks: Chunk[] = [];
  const builder = new ChunkBuilder(bounds);
  for (const event of events) {
    if (builder.add(event)) continue;
    chunks.push(builder.finish(event.offset - 1));
    builder.add(event);
  }
  chunks.push(builder.finish(to));
  return chunks;
}

/** The next chunk of `group` behind `place`, within the epoch of `place`. `index` is the entry that holds the next event. */
export function collect(
  group: FilterGroup,
  source: EntrySource,
  index: number,
  place: Position,
  bounds: ChunkBounds,
): Chunk {
  const builder = new ChunkBuilder(bounds);
  let to = place.offset;
  let left = scanMax;
  for (let entry = source.at(index); entry && entry.epoch === place.epoch; entry = source.at(++index)) {
    if (group.mayWant(entry)) {
      for (const event of entry.events) {
        if (event.offset > to && group.matches(event) && !builder.add(event)) return builder.finish(event.offset - 1);
      }
    }
    to = entry.offset;
    left -= entry.count;
    if (left <= 0) break;
  }
  return builder.finish(to);
}

class ChunkBuilder {
  readonly #bounds: ChunkBounds;
  #lines: string[] = [];
  #chars = 0;
  #last = 0;

  constructor(bounds: ChunkBounds) {
    this.#bounds = bounds;
  }

  /** False if there is no room for it. A single line always fits: what may be stored may be sent. */
  add(event: LogEvent): boolean {
    const { line } = event;
    const count = this.#lines.length;
    if (count === this.#bounds.lines) return false;
    if (count > 0 && this.#tooLong(line)) return false;
    this.#lines.push(line);
    this.#chars += line.length + 1;
    this.#last = event.offset;
    return true;
  }

  finish(to: number): Chunk {
    const lines = this.#lines;
    const bytes = lines.length > 0 ? Buffer.from(lines.join('\n')) : undefined;
    const chunk = { to, lines: lines.length, last: this.#last, bytes };
    this.#lines = [];
    this.#chars = 0;
    return chunk;
  }

  /** Characters are counted exactly only where the cheap upper bound does not decide. */
  #tooLong(line: string): boolean {
    const { lineBytes } = this.#bounds;
    if ((this.#chars + line.length) * utf8Most <= lineBytes) return false;
    return Buffer.byteLength(this.#lines.join('\n')) + 1 + Buffer.byteLength(line) > lineBytes;
  }
}
