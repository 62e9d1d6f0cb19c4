import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { type Filter, matchesType, Pattern } from '../protocol/filter.js';
import { formatPosition, type Position, PositionText } from '../protocol/position.js';
import { NamespaceName } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import type { LogEntry } from '../redis/log-entry.js';
import { readPage } from '../redis/log-page.js';
import { judge, type LogView } from '../redis/log-view.js';
import type { Namespace } from '../redis/namespace.js';
import { toFilter } from './filter.js';
import { From, findPlace, positionUnknown, refusalOf, toPosition } from './place.js';

/** An event as every connection gets it. */
export const Event = z.object({
  id: z.string(),
  source: z.string(),
  type: z.string(),
  subject: z.string().optional(),
  time: z.string(),
  data: z.unknown(),
});

/** A search that finds little ends after this many pages; `next` goes on. */
const pagesMax = 8;
const pageBounds = { entries: 1000, bytes: 1024 * 1024 };
/** For the frame around the events. */
const frameBytes = 1024;

export const read = defineCommand({
  name: 'feed.read',
  about: 'Read the log page by page. A page may hold fewer than asked; `next` goes on where it ends.',
  allowed: 'watcher',
  params: z.strictObject({
    from: From,
    to: PositionText.optional(),
    types: z.array(Pattern).min(1).max(32).optional(),
    limit: z.int().min(1).max(1000).default(100),
    namespace: NamespaceName.optional(),
  }),
  result: z.object({ events: z.array(z.object({ offset: z.int(), event: Event })), next: z.string() }),
  fails: ['POSITION_LOST', 'BAD_POSITION', 'BAD_FILTER'],
  run: async ({ from, to, types, limit }, { namespace, served, config }) => {
    // A namespace nobody has opened has no log and gets none by being read; `all` is where its first event will be.
    if (!served && (typeof from === 'object' || words.includes(from))) return new Raw('{"events":[],"next":"all"}');
    if (!served) throw positionUnknown();
    const page = new ReadPage(types && toFilter(types), to === undefined ? undefined : toPosition(to), {
      events: limit,
      bytes: config.gateway.lineBytes - frameBytes,
    });
    const start = await startOf(namespace, from);
    const next = await fill(page, namespace, start);
    return new Raw(`{"events":[${page.texts.join(',')}],"next":"${formatPosition(next)}"}`);
  },
});

const words: readonly unknown[] = ['new', 'all'];

async function startOf(namespace: Namespace, from: From): Promise<Position> {
  // A plain position is judged together with its first page.
  if (typeof from === 'string' && !words.includes(from)) return toPosition(from);
  return (await findPlace(namespace, from, 'error')).at;
}

async function fill(page: ReadPage, namespace: Namespace, start: Position): Promise<Position> {
  let place = start;
  for (let pages = 0; pages < pagesMax; pages++) {
    const { view, verdict, entries } = await readPage(namespace, place, pageBounds);
    if (verdict.kind !== 'ok') {
      if (pages === 0) throw refusalOf(verdict, view);
      return place; // trimmed while we read: what was read counts, the next call hears of the rest
    }
    if (pages === 0) page.checkEnd(view);
    for (const entry of entries) {
      place = page.take(entry, place);
      if (page.full) return place;
    }
    if (place.offset >= view.head) return place;
  }
  return place;
}

class ReadPage {
  readonly texts: string[] = [];
  full = false;
  readonly #filter: Filter | undefined;
  readonly #to: Position | undefined;
  readonly #bounds: { readonly events: number; readonly bytes: number };
  #bytes = 0;

  constructor(filter: Filter | undefined, to: Position | undefined, bounds: { events: number; bytes: number }) {
    this.#filter = filter;
    this.#to = to;
    this.#bounds = bounds;
  }

  /** An end that is ahead or trimmed is fine: it only bounds. One of another history bounds nothing. */
  checkEnd(view: LogView): void {
    if (!this.#to) return;
    const verdict = judge(this.#to, view);
    if (verdict.kind === 'bad' || (verdict.kind === 'lost' && verdict.reason === 'fork'))
      throw refusalOf(verdict, view);
  }

  /** Takes what belongs to the page and answers up to where it has looked. */
  take(entry: LogEntry, place: Position): Position {
    const end = this.#to?.offset ?? Number.MAX_SAFE_INTEGER;
    if (place.offset >= end) {
      this.full = true;
      return place;
    }
    if (!entry.types.some((type) => this.#wants(type)) && entry.offset <= end) {
      return { epoch: entry.epoch, offset: entry.offset };
    }
    let done = place.offset;
    for (const event of entry.events) {
      if (event.offset <= done) continue;
      if (event.offset > end || this.texts.length === this.#bounds.events) this.full = true;
      else if (this.#wants(event.type)) this.#add(event.offset, event.json);
      if (this.full) break;
      done = event.offset;
    }
    if (done === place.offset) return place;
    if (this.texts.length === this.#bounds.events) this.full = true;
    return { epoch: entry.epoch, offset: done };
  }

  #wants(type: string): boolean {
    return !this.#filter || this.#filter.types.some((pattern) => matchesType(pattern, type));
  }

  #add(offset: number, event: string): void {
    const text = `{"offset":${offset},"event":${event}}`;
    const bytes = Buffer.byteLength(text) + 1;
    if (this.texts.length > 0 && this.#bytes + bytes > this.#bounds.bytes) {
      this.full = true;
      return;
    }
    this.#bytes += bytes;
    this.texts.push(text);
  }
}
