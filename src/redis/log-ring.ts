import type { Position } from '../protocol/position.js';
import type { LogEntry } from './log-entry.js';

/**
 * The newest entries of the log, without a hole and with rising offsets, bounded by bytes. Whenever the log is rewound,
 * emptied or trimmed ahead of the reader, the ring begins anew at the place to go on from.
 */
export class LogRing {
  readonly #bytesMax: number;
  #entries: LogEntry[] = [];
  #start = 0;
  #bytes = 0;
  #head: Position;
  #base: number;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#head = { epoch: '', offset: 0 };
    this.#base = 0;
  }

  /** Everything up to here was read. */
  get head(): Position {
    return this.#head;
  }

  /** Everything behind this offset, up to the head, is in the ring. */
  get base(): number {
    return this.#base;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get length(): number {
    return this.#entries.length - this.#start;
  }

  push(entry: LogEntry): void {
    this.#entries.push(entry);
    this.#bytes += entry.bytes;
    this.#head = { epoch: entry.epoch, offset: entry.offset };
    while (this.#bytes > this.#bytesMax && this.length > 1) this.#evict();
  }

  reset(head: Position): void {
    this.#entries = [];
    this.#start = 0;
    this.#bytes = 0;
    this.#head = head;
    this.#base = head.offset;
  }

  /** Index of the entry that holds the event behind `offset`; `length` if that is the head. Valid until the next push. */
  indexBehind(offset: number): number {
    let low = this.#start;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#entries[middle]!.offset > offset) high = middle;
      else low = middle + 1;
    }
    return low - this.#start;
  }

  at(index: number): LogEntry | undefined {
    return this.#entries[this.#start + index];
  }

  #evict(): void {
    const entry = this.#entries[this.#start]!;
    this.#bytes -= entry.bytes;
    this.#base = entry.offset;
    this.#start++;
    if (this.#start < 1024 || this.#start * 2 < this.#entries.length) {
      // Let go of the entry itself now, of its slot later.
      (this.#entries as (LogEntry | undefined)[])[this.#start - 1] = undefined;
      return;
    }
    this.#entries = this.#entries.slice(this.#start);
    this.#start = 0;
  }
}
