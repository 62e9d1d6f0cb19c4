import { type Filter, matchesType } from '../protocol/filter.js';
import type { LogEntry, LogEvent } from '../redis/log-entry.js';
import type { Chunk } from './chunk.js';
import type { Cursor } from './cursor.js';

/** Published types are the clients' to invent: what is remembered about them is bounded. */
const typesMax = 4096;

export function matchesWhere(filter: Filter, event: LogEvent): boolean {
  for (const name in filter.where) {
    if (event.attribute(name) !== filter.where[name as keyof Filter['where']]) return false;
  }
  return true;
}

export const filterKey = ({ types, where }: Filter): string =>
  JSON.stringify([[...types].sort(), Object.entries(where).sort(([a], [b]) => (a < b ? -1 : 1))]);

/** All cursors with the same set of filters. What one of them is to get, all of them are, so it is put together once. */
export class FilterGroup {
  readonly key: string;
  readonly filters: readonly Filter[];
  /** Members that stand at the head. */
  readonly live = new Set<Cursor>();
  members = 0;
  /** Matched in the batch that is being handed out; see Fanout. */
  pending: LogEvent[] = [];
  /** Chunks of this turn by the place they begin at (and the log's epoch then: offsets are handed out again). */
  readonly chunks = new Map<string, Chunk>();
  readonly #wanted = new Map<string, readonly Filter[]>();

  constructor(key: string, filters: readonly Filter[]) {
    this.key = key;
    this.filters = filters;
  }

  /** False: nothing in the entry can match, and it need not be split. */
  mayWant(entry: LogEntry): boolean {
    for (const type of entry.types) if (this.#wants(type).length > 0) return true;
    return false;
  }

  matches(event: LogEvent): boolean {
    for (const filter of this.#wants(event.type)) if (matchesWhere(filter, event)) return true;
    return false;
  }

  #wants(type: string): readonly Filter[] {
    let filters = this.#wanted.get(type);
    if (!filters) {
      if (this.#wanted.size >= typesMax) this.#wanted.clear();
      filters = this.filters.filter(({ types }) => types.some((pattern) => matchesType(pattern, type)));
      this.#wanted.set(type, filters);
    }
    return filters;
  }
}
