import type { Position } from '../protocol/position.js';

/** What the folds of streams/ and the reactor see of an event; tests make it by hand. */
export interface FeedEvent {
  readonly type: string;
  /** The thing's id or name; null for what has none. */
  readonly subject: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: every type has its own shape (events.ts)
  readonly data: any;
  readonly epoch: string;
  readonly offset: number;
  /** Milliseconds since 1970, Redis' clock. */
  readonly at: number;
  /** The daemon whose script wrote it. */
  readonly by: string;
}

/**
 * One event of an entry. Its columns are cut when a subscription may want it, its line is built once however many
 * connections get it, its data is parsed only for a `where` or a fold.
 */
export class LogEvent implements FeedEvent {
  readonly entry: LogEntry;
  readonly offset: number;
  readonly type: string;
  /** JSON text; `null` for none. */
  readonly subjectText: string;
  readonly dataText: string;
  /** Written by a script of ours about its own change. Published events have more columns and are never believed. */
  readonly own: boolean;
  readonly #foreign: readonly string[] | undefined;
  #data: unknown;
  #parsed = false;
  #line: string | undefined;

  constructor(entry: LogEntry, offset: number, columns: readonly string[]) {
    this.entry = entry;
    this.offset = offset;
    [this.type, this.subjectText, this.dataText] = columns as [string, string, string];
    this.own = columns.length === 3;
    this.#foreign = this.own ? undefined : columns.slice(3);
  }

  get epoch(): string {
    return this.entry.epoch;
  }
  get at(): number {
    return this.entry.at;
  }
  get by(): string {
    return this.entry.by;
  }
  get subject(): string | null {
    return JSON.parse(this.subjectText) as string | null;
  }

  get data(): unknown {
    if (!this.#parsed) {
      this.#data = JSON.parse(this.dataText);
      this.#parsed = true;
    }
    return this.#data;
  }

  /** The value of an attribute that `where` may ask for, if the event declares it as a string. */
  attribute(name: string): string | undefined {
    if (!this.dataText.includes(name) && !this.dataText.includes('\\u')) return undefined;
    const data = this.data;
    if (typeof data !== 'object' || data === null || !Object.hasOwn(data, name)) return undefined;
    const value = (data as Record<string, unknown>)[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** The event as the wire has it, as JSON text. */
  get json(): string {
    const line = this.line;
    return line.slice(line.indexOf(',"event":') + 9, -1);
  }

  /** The line of the feed, the same for every connection. */
  get line(): string {
    this.#line ??= this.#buildLine();
    return this.#line;
  }

  #buildLine(): string {
    const { entry, offset, subjectText, dataText } = this;
    const [id = 'null', source = 'null', time = ''] = this.#foreign ?? [];
    const idText = id === 'null' ? `"${entry.epoch}:${offset}"` : id;
    const sourceText = source === 'null' ? entry.source : source;
    const subject = subjectText === 'null' ? '' : `,"subject":${subjectText}`;
    // Own types are plain words; JSON.stringify for the few characters a published one may have.
    const type = this.own ? `"${this.type}"` : JSON.stringify(this.type);
    return `{"op":"event","offset":${offset},"event":{"id":${idText},"source":${sourceText},"type":${type}${subject},"time":"${time || entry.time}","data":${dataText}}}`;
  }
}

/** One entry of the log: all events of one script. It is never split unless a subscription or a fold may want it. */
export class LogEntry {
  readonly kind = 'entry';
  /** Offset of its last event; the first is `first`. */
  readonly offset: number;
  readonly count: number;
  readonly epoch: string;
  readonly at: number;
  readonly by: string;
  /** Distinct types of its events. */
  readonly types: readonly string[];
  /** Of all its events, as stored. */
  readonly text: string;
  /** `source` of our own events as JSON text. */
  readonly source: string;
  #events: readonly LogEvent[] | undefined;
  #time: string | undefined;

  /** `fields` are name and value in turn, as Redis answers them. */
  constructor(id: string, fields: readonly string[], source: string) {
    let by = '';
    let epoch = '';
    let at = '0';
    let n = '1';
    let types = '';
    let text = '';
    for (let i = 0; i < fields.length; i += 2) {
      const value = fields[i + 1]!;
      switch (fields[i]) {
        case 'by':
          by = value;
          break;
        case 'epoch':
          epoch = value;
          break;
        case 'at':
          at = value;
          break;
        case 'n':
          n = value;
          break;
        case 'types':
          types = value;
          break;
        case 'events':
          text = value;
          break;
      }
    }
    this.offset = Number.parseInt(id, 10);
    this.count = Number(n);
    this.epoch = epoch;
    this.at = Number(at);
    this.by = by;
    this.types = types.split(' ');
    this.text = text;
    this.source = source;
  }

  get first(): number {
    return this.offset - this.count + 1;
  }

  /** What it takes in memory, roughly: text, fields and objects. */
  get bytes(): number {
    return this.text.length + 400;
  }

  get time(): string {
    this.#time ??= new Date(this.at).toISOString();
    return this.#time;
  }

  get events(): readonly LogEvent[] {
    this.#events ??= this.#split();
    return this.#events;
  }

  #split(): LogEvent[] {
    const first = this.first;
    return this.text.split('\n').map((row, i) => new LogEvent(this, first + i, row.split('\t')));
  }
}

/** The epoch changed and nothing was lost: everything up to `position` was handled, what follows is of the new epoch. */
export interface EpochMark {
  readonly kind: 'epoch';
  readonly position: Position;
}

/** Events between `from` and `to` cannot be had. `lost` is absent when their number is not known. */
export interface LogGap {
  readonly kind: 'gap';
  readonly reason: 'trimmed' | 'fork' | 'reset';
  readonly from: Position;
  readonly to: Position;
  readonly lost?: number;
}

export type LogItem = LogEntry | EpochMark | LogGap;

/** What one read of the log brought, in order. Never empty. */
export type LogBatch = readonly LogItem[];
