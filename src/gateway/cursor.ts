import type { FeedSink } from '../feed/sink.js';
import type { Filter } from '../protocol/filter.js';
import type { Position } from '../protocol/position.js';
import type { LogPage } from '../redis/log-page.js';
import { toGap } from '../redis/log-view.js';
import { type Chunk, collect, type EntrySource } from './chunk.js';
import { type Fanout, gapLine, positionLine } from './fanout.js';
import type { FilterGroup } from './filter-group.js';

const retryMs = 500;
const strangeMs = 50;

/** The one thing that a cursor behind the head waits for. */
type Awaited = 'nothing' | 'turn' | 'room' | 'page' | 'batch' | 'end';

/**
 * The place of one connection in one log. It holds a position and no events: what its socket does not take stays in
 * the log and is read again when it does.
 *
 * `live`: at the head; the Fanout writes for it and its place is the Fanout's. Otherwise it is behind, at a place of
 * its own that `pump` moves: from the ring if the ring holds the next event, else by pages from Redis. Meanwhile it
 * waits for room in its socket, for a page, or for the batch that brings the ring to where Redis already is.
 */
export class Cursor {
  readonly #sink: FeedSink;
  readonly #fanout: Fanout;
  #group: FilterGroup;
  #live = false;
  #on: Awaited = 'turn';
  #place: Position;
  /** The current epoch of the log when `#place` was judged; the ring may be joined while it is of the same. */
  #lineage: string;
  /** Offset that the last line of any kind has told the client, and turns of the router's clock since then. */
  #told: number;
  #quietTicks = 0;
  readonly #wake = (): void => {
    if (this.#on !== 'room' && this.#on !== 'turn') return;
    this.#on = 'nothing';
    this.pump();
  };

  /** Begins in a later turn: the reply goes first, and further filters of the same message begin at the same place. */
  constructor(sink: FeedSink, fanout: Fanout, filters: readonly Filter[], at: Position, opening: string | undefined) {
    this.#sink = sink;
    this.#fanout = fanout;
    this.#group = fanout.join(filters);
    this.#place = at;
    this.#lineage = at.epoch;
    this.#told = at.offset;
    fanout.cursors.add(this);
    setImmediate(() => {
      if (opening && this.#on !== 'end') sink.push(opening);
      this.#wake();
    });
  }

  get live(): boolean {
    return this.#live;
  }

  /** Everything up to here was handled. */
  get position(): Position {
    return this.#live ? this.#fanout.head : this.#place;
  }

  /** From the present place on, these filters. */
  want(filters: readonly Filter[]): void {
    const before = this.#group;
    this.#group = this.#fanout.join(filters);
    before.live.delete(this);
    this.#fanout.leave(before);
    if (this.#live) this.#group.live.add(this);
  }

  end(): void {
    this.#group.live.delete(this);
    this.#fanout.leave(this.#group);
    this.#fanout.cursors.delete(this);
    this.#fanout.waiting.delete(this);
    this.#on = 'end';
  }

  /** Called by the Fanout for a live one: chunks behind `from`. */
  take(chunks: readonly Chunk[], from: Position): void {
    let to = from.offset;
    for (const chunk of chunks) {
      if (this.#sink.room() <= 0) {
        this.#fallBehind({ epoch: from.epoch, offset: to });
        return;
      }
      this.#write(chunk);
      to = chunk.to;
    }
  }

  /** One line in place; the client then knows that it is at `offset`. */
  tell(line: string, offset: number): void {
    this.#sink.push(line);
    this.#told = offset;
    this.#quietTicks = 0;
  }

  /** Tells the position if the client has not heard of it for too long; see Router. */
  tick(every: number, ticksMax: number): void {
    const { position } = this;
    const unmatched = position.offset - this.#told;
    this.#quietTicks++;
    if (unmatched < every && (unmatched <= 0 || this.#quietTicks < ticksMax)) return;
    this.tell(positionLine(position), position.offset);
  }

  /** Moves on as far as ring, pages and socket allow, and then waits for the one thing that is missing. */
  pump(): void {
    if (this.#on === 'batch') {
      this.#fanout.waiting.delete(this);
      this.#on = 'nothing';
    }
    if (this.#on !== 'nothing' || this.#live) return;
    const { ring } = this.#fanout.log;
    if (!this.#inRing()) this.#askPage();
    else if (this.#drain(ring, ring.indexBehind(this.#place.offset))) {
      // A chunk shared with somebody who had it from Redis may reach further than the ring.
      if (this.#place.offset === this.#fanout.head.offset) this.#goLive();
      else this.#awaitBatch();
    }
  }

  #goLive(): void {
    this.#live = true;
    this.#group.live.add(this);
  }

  #fallBehind(place: Position): void {
    this.#group.live.delete(this);
    this.#live = false;
    this.#place = place;
    this.#lineage = place.epoch;
    this.#awaitRoom();
  }

  #awaitRoom(): void {
    this.#on = 'room';
    this.#sink.onDrain(this.#wake);
  }

  #awaitBatch(): void {
    this.#on = 'batch';
    this.#fanout.waiting.add(this);
  }

  #inRing(): boolean {
    const { ring } = this.#fanout.log;
    const { offset } = this.#place;
    return this.#lineage === ring.head.epoch && offset >= ring.base && offset <= ring.head.offset;
  }

  /** Writes what `source` has from `index` on; false if it stopped early and waits for something. */
  #drain(source: EntrySource, index: number): boolean {
    for (;;) {
      let next = source.at(index);
      while (next && next.offset <= this.#place.offset) next = source.at(++index);
      if (!next) return true;
      if (this.#sink.room() <= 0) {
        this.#awaitRoom();
        return false;
      }
      if (next.epoch !== this.#place.epoch) {
        this.#place = { epoch: next.epoch, offset: this.#place.offset };
        this.tell(positionLine(this.#place), this.#place.offset);
      }
      const chunk = this.#chunkAt(source, index);
      this.#place = { epoch: this.#place.epoch, offset: chunk.to };
      this.#write(chunk);
      if (!chunk.bytes && source.at(index + 1)) {
        // A long stretch without a match: others first.
        this.#on = 'turn';
        setImmediate(this.#wake);
        return false;
      }
    }
  }

  /** Members of a group at one place get the same bytes, in this turn. */
  #chunkAt(source: EntrySource, index: number): Chunk {
    const { chunks } = this.#group;
    const key = `${this.#lineage}:${this.#place.offset}`;
    const cached = chunks.get(key);
    if (cached) return cached;
    const chunk = collect(this.#group, source, index, this.#place, this.#fanout.bounds);
    if (chunks.size === 0) this.#fanout.remember(this.#group);
    chunks.set(key, chunk);
    return chunk;
  }

  #askPage(): void {
    this.#on = 'page';
    this.#fanout.catchUp.request(this.#place, (page) => {
      if (this.#on !== 'page') return;
      this.#on = 'nothing';
      if (page) this.#takePage(page);
      else this.#later(retryMs * (1 + Math.random())); // Redis is away: ask again, not all at once
    });
  }

  #later(ms: number): void {
    this.#on = 'turn';
    setTimeout(this.#wake, ms);
  }

  #takePage({ view, verdict, entries }: LogPage): void {
    this.#lineage = view.epoch;
    if (verdict.kind !== 'ok') {
      const gap = toGap(this.#place, verdict, view);
      this.#place = gap.to;
      this.tell(gapLine(gap), gap.to.offset);
      this.pump();
      return;
    }
    if (!this.#drain({ at: (index) => entries[index] }, 0)) return;
    const { head } = this.#fanout.log.ring;
    if (this.#lineage !== head.epoch)
      this.#later(strangeMs); // ring and page are of two epochs: one is older
    else if (this.#place.offset < Math.max(view.head, head.offset) || this.#inRing()) this.pump();
    else this.#awaitBatch();
  }

  #write({ bytes, lines, last }: Chunk): void {
    if (!bytes) return;
    this.#sink.write(bytes, lines);
    this.#told = last;
    this.#quietTicks = 0;
  }
}
