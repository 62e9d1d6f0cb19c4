/** A message as it was heard, or a `hole` where messages were dropped because too many waited. */
export interface TapeItem {
  readonly kind: 'message' | 'hole';
  readonly channel: string;
  /** Absent: larger than anything that can be taken; only its size is known. */
  readonly payload: Buffer | undefined;
  readonly bytes: number;
  /** Of the daemon's own monotonic clock. */
  readonly since: number;
  until: number;
  /** How many messages it stands for. */
  span: number;
}

/** A place that every daemon on the same channel knows: so many messages behind a mark. */
export interface TapePlace {
  readonly mark: string;
  readonly count: number;
}

const marksMax = 64;
const itemBytes = 200;

/**
 * What was heard on the channel and is not in the log yet, numbered. All daemons hear the same messages in the same
 * order, and the marks of the appender between them, so `mark + count` means the same place to all of them. The
 * appender keeps what it has not appended, a standby what the appender may not have; when one takes over, it looks up
 * the place where the log stands and goes on from there: without a hole and without a repeat.
 */
export class Tape {
  readonly #bytesMax: number;
  #items: TapeItem[] = [];
  #first = 0;
  #start = 0;
  #end = 0;
  #bytes = 0;
  #marks = new Map<string, number>();
  /** Since when it is without a hole at its beginning. */
  since = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#items.length - this.#first;
  }
  get bytes(): number {
    return this.#bytes;
  }

  /** The link was cut or is new: nothing is known of what was said before `now`. */
  restart(now: number): void {
    this.#items = [];
    this.#first = 0;
    this.#start = 0;
    this.#end = 0;
    this.#bytes = 0;
    this.#marks.clear();
    this.since = now;
  }

  /** A full tape drops what comes in for an appender (and remembers the hole), and the oldest for a standby. */
  push(channel: string, payload: Buffer | undefined, bytes: number, now: number, appending: boolean): void {
    this.#end++;
    const cost = (payload?.length ?? 0) + itemBytes;
    if (this.#bytes + cost > this.#bytesMax && this.length > 0) {
      if (appending) {
        this.#hole(now);
        return;
      }
      while (this.#bytes + cost > this.#bytesMax && this.length > 0) this.#shift();
      this.since = this.#items[this.#first]?.since ?? now;
    }
    this.#bytes += cost;
    this.#items.push({ kind: 'message', channel, payload, bytes, since: now, until: now, span: 1 });
  }

  mark(name: string): void {
    this.#marks.set(name, this.#end);
    if (this.#marks.size > marksMax) this.#marks.delete(this.#marks.keys().next().value!);
  }

  /** The first items, at most so many and about so many bytes. */
  peek(count: number, bytes: number): TapeItem[] {
    const items: TapeItem[] = [];
    for (let i = this.#first; i < this.#items.length && items.length < count; i++) {
      const item = this.#items[i]!;
      bytes -= item.payload?.length ?? 0;
      if (bytes < 0 && items.length > 0) break;
      items.push(item);
    }
    return items;
  }

  drop(items: readonly TapeItem[]): void {
    for (let i = 0; i < items.length; i++) this.#shift();
  }

  /** The place behind `items`, the first ones of the tape. */
  placeBehind(items: readonly TapeItem[]): TapePlace {
    const at = items.reduce((sum, { span }) => sum + span, this.#start);
    let place = { mark: '', count: 0 };
    for (const [mark, number] of this.#marks) if (number <= at) place = { mark, count: at - number };
    return place;
  }

  /** When the first item behind `items` was heard, if there is one. */
  heardBehind(items: readonly TapeItem[]): number | undefined {
    return this.#items[this.#first + items.length]?.since;
  }

  /** Goes to a place; false if it is not on the tape, and then nothing has changed. */
  seek({ mark, count }: TapePlace): boolean {
    const number = this.#marks.get(mark);
    if (number === undefined || number + count < this.#start || number + count > this.#end) return false;
    while (this.#start < number + count) this.#shift();
    return true;
  }

  /** Drops what was heard before `moment`; false if that is not all there was to hear then. */
  seekTime(moment: number): boolean {
    if (moment < this.since) return false;
    while (this.length > 0 && this.#items[this.#first]!.since < moment) this.#shift();
    return true;
  }

  #hole(now: number): void {
    const last = this.#items.at(-1);
    if (last?.kind === 'hole') {
      last.span++;
      last.until = now;
      return;
    }
    this.#bytes += itemBytes;
    this.#items.push({ kind: 'hole', channel: '', payload: undefined, bytes: 0, since: now, until: now, span: 1 });
  }

  #shift(): void {
    const item = this.#items[this.#first];
    if (!item) return;
    (this.#items as (TapeItem | undefined)[])[this.#first++] = undefined;
    this.#start += item.span;
    this.#bytes -= (item.payload?.length ?? 0) + itemBytes;
    if (this.#first < 1024 || this.#first * 2 < this.#items.length) return;
    this.#items = this.#items.slice(this.#first);
    this.#first = 0;
  }
}
