import { formatPosition, type Position } from '../protocol/position.js';
import type { EventLog } from '../redis/event-log.js';
import type { LogPage } from '../redis/log-page.js';
import { guarded } from './probes.js';

const atOnce = 8;
/** No more than a socket takes at once: what it does not take is read again. */
const bounds = { entries: 256, bytes: 256 * 1024 };

interface Wait {
  readonly place: Position;
  readonly done: (page: LogPage | undefined) => void;
}

/**
 * Pages for cursors behind the ring. A herd that comes back at once must not bury Redis: at most eight reads of a
 * namespace are on their way, who has had a page waits behind all others, and equal places share one read.
 */
export class CatchUp {
  readonly #log: EventLog;
  readonly #onError: (error: unknown) => void;
  readonly #waiting = new Map<string, Wait[]>();
  readonly #reading = new Map<string, Wait[]>();
  #closed = false;

  constructor(log: EventLog, onError: (error: unknown) => void) {
    this.#log = log;
    this.#onError = onError;
  }

  get reading(): number {
    return this.#reading.size;
  }

  get waiting(): number {
    let count = 0;
    for (const waits of this.#waiting.values()) count += waits.length;
    return count;
  }

  /** Calls `done` with the page behind `place`, or with nothing if it could not be read; ask again then. */
  request(place: Position, done: (page: LogPage | undefined) => void): void {
    const key = formatPosition(place);
    const waits = this.#reading.get(key) ?? this.#waiting.get(key);
    if (waits) waits.push({ place, done });
    else this.#waiting.set(key, [{ place, done }]);
    this.#next();
  }

  close(): void {
    this.#closed = true;
    this.#waiting.clear();
  }

  #next(): void {
    while (this.#reading.size < atOnce && !this.#closed) {
      const first = this.#waiting.entries().next();
      if (first.done) return;
      const [key, waits] = first.value;
      this.#waiting.delete(key);
      this.#reading.set(key, waits);
      this.#log.page(waits[0]!.place, bounds).then(
        (page) => this.#settle(key, page),
        (error) => {
          this.#onError(error);
          this.#settle(key, undefined);
        },
      );
    }
  }

  #settle(key: string, page: LogPage | undefined): void {
    const waits = this.#reading.get(key) ?? [];
    this.#reading.delete(key);
    // One cursor's fault must not stall the others that wait for a page.
    if (!this.#closed) for (const { done } of waits) guarded('a page of the log', () => done(page));
    this.#next();
  }
}
