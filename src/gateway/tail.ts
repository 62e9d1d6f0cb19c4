import { Refusal } from '../errors.js';
import type { Subscribing } from '../feed/port.js';
import type { FeedSink } from '../feed/sink.js';
import type { Filter } from '../protocol/filter.js';
import type { Position } from '../protocol/position.js';
import type { LogPage } from '../redis/log-page.js';
import { toGap } from '../redis/log-view.js';
import { type Chunk, collect, type EntrySource } from './chunk.js';
import { type Fanout, gapLine, positionLine } from './fanout.js';
import type { FilterGroup } from './filter-group.js';
import type { FeedTail } from './sinks.js';

const subscriptionsMax = 64;
const retryMs = 500;

/**
 * Where a tail stands to the ring.
 *
 *   idle --subscribe--> behind <--> live
 *
 * `live`: at the head; the Fanout writes to it and its place is the Fanout's. `behind`: at a place of its own, which
 * it moves by `pump`: from the ring if the ring holds the next event, else by pages from Redis. It waits for exactly
 * one thing at a time (`on`): room in its socket, a page, or a batch that brings the ring to where Redis already is.
 */
type Standing = 'idle' | 'behind' | 'live';
type Awaited = 'nothing' | 'start' | 'room' | 'page' | 'batch';

/**
 * The cursor of one connection over one log. It holds a position and no events: what its socket does not take stays in
 * the log and is read again when it does.
 */
export class Tail implements FeedTail {
  readonly #sink: FeedSink;
  readonly #fanoutOf: (namespace: string) => Fanout;
  readonly #subscriptions = new Map<string, Filter>();
  #numbers = 0;
  #fanout: Fanout | undefined;
  #group: FilterGroup | undefined;
  #standing: Standing = 'idle';
  #on: Awaited = 'nothing';
  #place: Position = { epoch: '', offset: 0 };
  /** The current epoch of the log when `#place` was judged; the ring may be joined while it is of the same. */
  #lineage = '';
  /** Offset that the last line of any kind has told the client. */
  #told = 0;
  /** Turns of the router's clock since then. */
  #quietTicks = 0;
  /** Counts begins and ends: what was asked for in another life of the cursor is not for this one. */
  #life = 0;
  readonly #wake = (): void => {
    if (this.#on !== 'room' && this.#on !== 'start') return;
    this.#on = 'nothing';
    this.pump();
  };

  constructor(sink: FeedSink, fanoutOf: (namespace: string) => Fanout) {
    this.#sink = sink;
    this.#fanoutOf = fanoutOf;
  }

  get position(): Position | undefined {
    if (this.#standing === 'idle') return undefined;
    return this.#standing === 'live' ? this.#fanout!.head : this.#place;
  }

  get message(): number {
    return this.#sink.message;
  }

  get standing(): Standing {
    return this.#standing;
  }

  subscribe({ namespace, filter, at, gap }: Subscribing): string {
    if (this.#subscriptions.size === subscriptionsMax) {
      throw new Refusal('LIMIT', `a connection has at most ${subscriptionsMax} subscriptions`);
    }
    const fanout = this.#fanout ?? this.#fanoutOf(namespace);
    const id = `s${++this.#numbers}`;
    this.#subscriptions.set(id, filter);
    if (this.#standing === 'idle') this.#begin(fanout, at, gap ? gapLine(gap) : undefined);
    this.#regroup();
    return id;
  }

  unsubscribe(subscription: string): boolean {
    if (!this.#subscriptions.delete(subscription)) return false;
    this.#sink.seal();
    if (this.#subscriptions.size === 0) this.#end();
    else this.#regroup();
    return true;
  }

  dispose(): void {
    this.#subscriptions.clear();
    this.#end();
  }

  /** Called by the Fanout for a live tail: chunks behind `from`. */
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
    const position = this.position;
    if (!position || this.#on === 'start') return;
    const unmatched = position.offset - this.#told;
    this.#quietTicks++;
    if (unmatched < every && (unmatched <= 0 || this.#quietTicks < ticksMax)) return;
    this.tell(positionLine(position), position.offset);
  }

  /** Moves on as far as ring, pages and socket allow, and then waits for the one thing that is missing. */
  pump(): void {
    const fanout = this.#fanout;
    if (!fanout || this.#standing !== 'behind') return;
    if (this.#on === 'batch') {
      fanout.waiting.delete(this);
      this.#on = 'nothing';
    }
    if (this.#on !== 'nothing') return;
    if (!this.#inRing(fanout)) this.#askPage(fanout);
    else if (this.#drain(fanout, fanout.log.ring, fanout.log.ring.indexBehind(this.#place.offset)))
      this.#goLive(fanout);
  }

  #begin(fanout: Fanout, at: Position, gap: string | undefined): void {
    this.#fanout = fanout;
    this.#standing = 'behind';
    this.#place = at;
    this.#lineage = at.epoch;
    this.#told = at.offset;
    this.#quietTicks = 0;
    fanout.tails.add(this);
    // In a later turn: the reply goes first, and a second subscription of the same message still begins here.
    this.#on = 'start';
    const life = ++this.#life;
    setImmediate(() => {
      if (life !== this.#life) return;
      if (gap) this.#sink.push(gap);
      this.#wake();
    });
  }

  #end(): void {
    const fanout = this.#fanout;
    if (!fanout) return;
    if (this.#group) {
      this.#group.live.delete(this);
      fanout.leave(this.#group);
    }
    fanout.tails.delete(this);
    fanout.waiting.delete(this);
    this.#life++;
    this.#group = undefined;
    this.#fanout = undefined;
    this.#standing = 'idle';
    this.#on = 'nothing';
  }

  #regroup(): void {
    const fanout = this.#fanout!;
    const before = this.#group;
    this.#group = fanout.join([...this.#subscriptions.values()]);
    if (before) {
      before.live.delete(this);
      fanout.leave(before);
    }
    if (this.#standing === 'live') this.#group.live.add(this);
  }

  #goLive(fanout: Fanout): void {
    this.#standing = 'live';
    this.#group!.live.add(this);
    this.#place = fanout.head;
  }

  #fallBehind(place: Position): void {
    this.#group!.live.delete(this);
    this.#standing = 'behind';
    this.#place = place;
    this.#lineage = place.epoch;
    this.#awaitRoom();
  }

  #awaitRoom(): void {
    this.#on = 'room';
    this.#sink.onDrain(this.#wake);
  }

  #inRing({ log: { ring } }: Fanout): boolean {
    const { offset } = this.#place;
    return this.#lineage === ring.head.epoch && offset >= ring.base && offset <= ring.head.offset;
  }

  /** Writes what `source` has from `index` on; false if it stopped early and waits for something. */
  #drain(fanout: Fanout, source: EntrySource, index: number): boolean {
    for (;;) {
      while (source.at(index) && source.at(index)!.offset <= this.#place.offset) index++;
      const next = source.at(index);
      if (!next) return true;
      if (this.#sink.room() <= 0) {
        this.#awaitRoom();
        return false;
      }
      if (next.epoch !== this.#place.epoch) {
        this.#place = { epoch: next.epoch, offset: this.#place.offset };
        this.tell(positionLine(this.#place), this.#place.offset);
      }
      const chunk = this.#chunkAt(fanout, source, index);
      this.#place = { epoch: this.#place.epoch, offset: chunk.to };
      this.#write(chunk);
      if (!chunk.bytes && source === fanout.log.ring && source.at(index + 1)) {
        this.#later(0); // a long stretch without a match: others first
        return false;
      }
    }
  }

  #chunkAt(fanout: Fanout, source: EntrySource, index: number): Chunk {
    const group = this.#group!;
    const key = `${this.#lineage}:${this.#place.offset}`;
    const cached = group.chunks.get(key);
    if (cached) return cached;
    const chunk = collect(group, source, index, this.#place, fanout.bounds);
    if (group.chunks.size === 0) fanout.remember(group);
    group.chunks.set(key, chunk);
    return chunk;
  }

  #askPage(fanout: Fanout): void {
    this.#on = 'page';
    const life = this.#life;
    fanout.catchUp.request(this.#place, (page) => {
      if (life !== this.#life) return;
      this.#on = 'nothing';
      if (page) this.#takePage(fanout, page);
      else this.#later(retryMs * (1 + Math.random())); // Redis is away
    });
  }

  #takePage(fanout: Fanout, { view, verdict, entries }: LogPage): void {
    if (verdict.kind !== 'ok') {
      const gap = toGap(this.#place, verdict, view);
      this.#place = gap.to;
      this.#lineage = view.epoch;
      this.tell(gapLine(gap), gap.to.offset);
      this.pump();
      return;
    }
    this.#lineage = view.epoch;
    if (!this.#drain(fanout, { at: (index) => entries[index] }, 0)) return;
    if (this.#inRing(fanout) || this.#place.offset < view.head) this.pump();
    else {
      this.#on = 'batch';
      fanout.waiting.add(this);
    }
  }

  #later(ms: number): void {
    this.#on = 'start';
    const life = this.#life;
    const go = (): void => {
      if (life === this.#life) this.#wake();
    };
    if (ms > 0) setTimeout(go, ms);
    else setImmediate(go);
  }

  #write({ bytes, lines, last }: Chunk): void {
    if (!bytes) return;
    this.#sink.write(bytes, lines);
    this.#told = last;
    this.#quietTicks = 0;
  }
}
