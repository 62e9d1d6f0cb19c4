import type { Subscription } from 'rxjs';
import type { Filter } from '../protocol/filter.js';
import { formatPosition, type Position } from '../protocol/position.js';
import type { EventLog } from '../redis/event-log.js';
import type { LogBatch, LogEntry, LogEvent, LogGap } from '../redis/log-entry.js';
import { CatchUp } from './catch-up.js';
import { type ChunkBounds, cut } from './chunk.js';
import type { Cursor } from './cursor.js';
import { FilterGroup, filterKey } from './filter-group.js';
import { FilterIndex } from './filter-index.js';
import { guarded } from './probes.js';

export const positionLine = (position: Position): string =>
  `{"op":"position","position":"${formatPosition(position)}"}`;

export const gapLine = ({ reason, from, to, lost }: LogGap): string =>
  JSON.stringify({
    op: 'gap',
    from: formatPosition(from),
    to: formatPosition(to),
    ...(lost === undefined ? {} : { lost }),
    reason,
  });

/**
 * One namespace's events on their way to the cursors of this daemon. Those at the head share one cursor, `head`: a batch
 * is matched once an event, cut into chunks once a group, and the same buffer goes to every member. Whoever has no
 * room falls behind with a place of its own (cursor.ts) and costs nothing until its socket drains.
 */
export class Fanout {
  readonly log: EventLog;
  readonly bounds: ChunkBounds;
  readonly catchUp: CatchUp;
  readonly cursors = new Set<Cursor>();
  /** Those that have read further than the ring, and look again at every batch. */
  readonly waiting = new Set<Cursor>();
  readonly #groups = new Map<string, FilterGroup>();
  readonly #index = new FilterIndex();
  readonly #subscription: Subscription;
  #touched: FilterGroup[] = [];
  #cached: FilterGroup[] = [];
  #head: Position;
  /** Matched up to here; `head` once it is written. */
  #read: Position;

  constructor(log: EventLog, bounds: ChunkBounds, onError: (error: unknown) => void) {
    this.log = log;
    this.bounds = bounds;
    this.catchUp = new CatchUp(log, onError);
    this.#head = log.position;
    this.#read = log.position;
    this.#subscription = log.batch$.subscribe({
      // What a subscriber throws rxjs would throw into the process.
      next: (batch) => guarded('the fan-out', () => this.#hand(batch)),
      error: onError,
    });
  }

  /** Where every live cursor stands. */
  get head(): Position {
    return this.#head;
  }

  get groups(): number {
    return this.#groups.size;
  }

  close(): void {
    this.#subscription.unsubscribe();
    this.catchUp.close();
  }

  join(filters: readonly Filter[]): FilterGroup {
    const keyed = new Map(filters.map((filter) => [filterKey(filter), filter]));
    const key = [...keyed.keys()].sort().join();
    let group = this.#groups.get(key);
    if (!group) {
      group = new FilterGroup(key, [...keyed.values()]);
      this.#groups.set(key, group);
      this.#index.add(group);
    }
    group.members++;
    return group;
  }

  leave(group: FilterGroup): void {
    if (--group.members > 0) return;
    this.#groups.delete(group.key);
    this.#index.remove(group);
  }

  /** Chunks are good for one turn: the next batch may make them longer. */
  remember(group: FilterGroup): void {
    if (this.#cached.push(group) > 1) return;
    setImmediate(() => {
      for (const one of this.#cached) one.chunks.clear();
      this.#cached = [];
    });
  }

  #hand(batch: LogBatch): void {
    for (const item of batch) {
      if (item.kind === 'entry') this.#match(item);
      else if (item.kind === 'gap') this.#announce(gapLine(item), item.to);
      else this.#announce(positionLine(item.position), item.position);
    }
    this.#flush();
    for (const cursor of [...this.waiting]) cursor.pump();
  }

  #match(entry: LogEntry): void {
    const done = this.#read.offset;
    if (this.#index.mayWant(entry)) {
      for (const event of entry.events) if (event.offset > done) this.#index.match(event, this.#want);
    }
    this.#read = { epoch: entry.epoch, offset: entry.offset };
  }

  readonly #want = (group: FilterGroup, event: LogEvent): void => {
    const { pending, live } = group;
    if (live.size === 0 || pending.at(-1) === event) return;
    if (pending.push(event) === 1) this.#touched.push(group);
  };

  #flush(): void {
    const from = this.#head;
    const to = this.#read;
    this.#head = to;
    if (this.#touched.length === 0) return;
    for (const group of this.#touched) {
      const chunks = cut(group.pending, to.offset, this.bounds);
      group.pending = [];
      for (const cursor of group.live) cursor.take(chunks, from);
    }
    this.#touched = [];
  }

  /** One line for everybody at the head, in place between the events around it. */
  #announce(line: string, to: Position): void {
    this.#flush();
    this.#head = to;
    this.#read = to;
    for (const { live } of this.#groups.values()) for (const cursor of live) cursor.tell(line, to.offset);
  }
}
