/**
 * The sequence oracle: holds what a watcher has received, over any number of reconnects, against the log as it really
 * was. Order, density and counts follow from one rule: a record is a walk along the log in which every step is the next
 * event that the watcher asked for, a place to which nothing of that kind stands between, or a gap that says so.
 */

/** An event that was in the log at some time. `lost` once Redis has forgotten it (rewound or emptied). */
export interface LoggedEvent {
  readonly epoch: string;
  readonly offset: number;
  readonly type: string;
  readonly subject?: string | null;
  readonly data?: unknown;
}

/** One incarnation of the log, oldest first. `first` is its first offset; below it the log is that of the one before. */
export interface LoggedEpoch {
  readonly epoch: string;
  readonly first: number;
  readonly events: readonly LoggedEvent[];
}

export type Received =
  | { readonly kind: 'from'; readonly position: string }
  | {
      readonly kind: 'event';
      readonly offset: number;
      readonly id?: string;
      readonly type?: string;
      readonly data?: unknown;
    }
  | { readonly kind: 'position'; readonly position: string }
  | {
      readonly kind: 'gap';
      readonly from: string;
      readonly to: string;
      readonly lost?: number | undefined;
      readonly reason: string;
    };

export interface OracleOptions {
  /** Which events the watcher asked for; all if absent. */
  readonly wants?: (event: LoggedEvent) => boolean;
  /** The record must reach the end of the log (default), or may stop anywhere. */
  readonly complete?: boolean;
  /** Gaps that may appear; none by default, so that loss is never taken for granted. */
  readonly gaps?: readonly string[];
}

export interface Verdict {
  readonly problems: readonly string[];
  readonly events: number;
  readonly gaps: number;
  /** Events that the announced gaps cover, as far as they said. */
  readonly lost: number;
}

/** Lines of a connection as the record the oracle reads: `from` of the subscription first, then what came. */
export function recordOf(from: string, lines: readonly { op?: string; [key: string]: unknown }[]): Received[] {
  const record: Received[] = [{ kind: 'from', position: from }];
  for (const line of lines) {
    if (line.op === 'event') {
      const event = line.event as { id: string; type: string; data: unknown };
      record.push({ kind: 'event', offset: line.offset as number, id: event.id, type: event.type, data: event.data });
    } else if (line.op === 'position' || line.op === 'heartbeat') {
      record.push({ kind: 'position', position: line.position as string });
    } else if (line.op === 'gap') {
      const { from: start, to, lost, reason } = line as unknown as Extract<Received, { kind: 'gap' }>;
      record.push({ kind: 'gap', from: start, to, lost, reason });
    }
  }
  return record;
}

/** Judges one record. `log`: every epoch there was, oldest first; the last is the one that stands. */
export function judgeRecord(
  record: readonly Received[],
  log: readonly LoggedEpoch[],
  options: OracleOptions = {},
): Verdict {
  return new Walk(log, options).run(record);
}

const parse = (position: string): { epoch: string; offset: number } => {
  const colon = position.lastIndexOf(':');
  return { epoch: position.slice(0, colon), offset: Number(position.slice(colon + 1)) };
};

class Walk {
  readonly #log: readonly LoggedEpoch[];
  readonly #options: OracleOptions;
  readonly #problems: string[] = [];
  #at: { epoch: string; offset: number } | undefined;
  #events = 0;
  #gaps = 0;
  #lost = 0;

  constructor(log: readonly LoggedEpoch[], options: OracleOptions) {
    this.#log = log;
    this.#options = options;
  }

  run(record: readonly Received[]): Verdict {
    for (const item of record) {
      this.#step(item);
      if (this.#problems.length > 20) break;
    }
    if (this.#options.complete !== false && this.#at) this.#end(this.#at);
    return { problems: this.#problems, events: this.#events, gaps: this.#gaps, lost: this.#lost };
  }

  #step(item: Received): void {
    if (item.kind === 'from') this.#from(item.position);
    else if (!this.#at) this.#problems.push(`${item.kind} before any subscription`);
    else if (item.kind === 'event') this.#event(item, this.#at);
    else if (item.kind === 'position') this.#position(item.position, this.#at);
    else this.#gap(item, this.#at);
  }

  #epoch(name: string): LoggedEpoch | undefined {
    return this.#log.find(({ epoch }) => epoch === name);
  }

  /** The log as it was while `epoch` lasted, from behind `after` to `upTo`. */
  #between(epoch: string, after: number, upTo: number): LoggedEvent[] {
    const parts: LoggedEvent[][] = [];
    let ceiling = upTo;
    for (let i = this.#log.findIndex((one) => one.epoch === epoch); i >= 0 && ceiling > after; i--) {
      const { first, events } = this.#log[i]!;
      parts.unshift(events.slice(indexBehind(events, after), indexBehind(events, ceiling)));
      ceiling = Math.min(ceiling, first - 1);
      if (first === 1) break;
    }
    return parts.length === 1 ? parts[0]! : parts.flat();
  }

  #wanted(events: readonly LoggedEvent[]): LoggedEvent[] {
    const { wants } = this.#options;
    return wants ? events.filter(wants) : [...events];
  }

  /** A resume: it may repeat nothing and leave out nothing, so it has to begin where the last connection stopped. */
  #from(position: string): void {
    const place = parse(position);
    if (!this.#at) {
      this.#at = place;
      return;
    }
    this.#reach(place, 'the subscription resumed');
  }

  #event(item: Extract<Received, { kind: 'event' }>, at: { epoch: string; offset: number }): void {
    this.#events++;
    const skipped = this.#wanted(this.#between(at.epoch, at.offset, item.offset));
    const found = skipped.at(-1);
    if (item.offset <= at.offset)
      this.#problems.push(`event ${item.offset} came after ${at.epoch}:${at.offset}: order or repeat`);
    else if (!found || found.offset !== item.offset) {
      this.#problems.push(
        `event ${item.offset} (${item.type}) is not in the log of epoch ${at.epoch}, or was not asked for`,
      );
    } else {
      const missing = skipped.slice(0, -1);
      if (missing.length > 0) this.#problems.push(`missed without a gap: ${describe(missing)} before ${item.offset}`);
      if (item.type !== undefined && item.type !== found.type) {
        this.#problems.push(`event ${item.offset} is ${found.type} in the log and ${item.type} in the record`);
      }
      if (
        item.data !== undefined &&
        found.data !== undefined &&
        JSON.stringify(item.data) !== JSON.stringify(found.data)
      ) {
        this.#problems.push(`event ${item.offset} (${found.type}) has other data in the log`);
      }
    }
    this.#at = { epoch: at.epoch, offset: Math.max(at.offset, item.offset) };
  }

  #position(position: string, at: { epoch: string; offset: number }): void {
    const place = parse(position);
    if (place.epoch === at.epoch && place.offset < at.offset) {
      this.#problems.push(`position ${position} lies behind ${at.epoch}:${at.offset}`);
      return;
    }
    this.#reach(place, 'a position was told');
  }

  /** From `at` to `place` without a gap: only if nothing that was asked for lies between. */
  #reach(place: { epoch: string; offset: number }, why: string): void {
    const at = this.#at!;
    if (place.epoch === at.epoch) {
      if (place.offset < at.offset) {
        this.#problems.push(`${why} at ${place.epoch}:${place.offset}, behind ${at.epoch}:${at.offset}`);
        return;
      }
      const missing = this.#wanted(this.#between(at.epoch, at.offset, place.offset));
      if (missing.length > 0) this.#problems.push(`${why} at ${place.offset}, missed ${describe(missing)}`);
    } else {
      const next = this.#epoch(place.epoch);
      if (!next) this.#problems.push(`${why} in epoch ${place.epoch}, which never was`);
      else if (at.offset > next.first - 1 || this.#dropped(at.epoch, place.epoch)) {
        this.#problems.push(
          `${why} in epoch ${place.epoch} from ${at.offset}, but that epoch begins at ${next.first}: a fork without a gap`,
        );
      } else {
        const missing = this.#wanted(this.#between(place.epoch, at.offset, place.offset));
        if (missing.length > 0) this.#problems.push(`${why} in a new epoch, missed ${describe(missing)}`);
      }
    }
    this.#at = place;
  }

  /** True if an epoch between the two (or the later one) began from an empty store. */
  #dropped(before: string, after: string): boolean {
    const from = this.#log.findIndex(({ epoch }) => epoch === before);
    const to = this.#log.findIndex(({ epoch }) => epoch === after);
    return from < 0 || this.#log.slice(from + 1, to + 1).some(({ first }) => first === 1);
  }

  #gap(gap: Extract<Received, { kind: 'gap' }>, at: { epoch: string; offset: number }): void {
    this.#gaps++;
    if (!(this.#options.gaps ?? []).includes(gap.reason))
      this.#problems.push(`a gap nobody caused: ${JSON.stringify(gap)}`);
    const from = parse(gap.from);
    const to = parse(gap.to);
    const between = from.epoch === at.epoch ? this.#wanted(this.#between(at.epoch, at.offset, from.offset)) : [];
    if (from.epoch !== at.epoch || from.offset < at.offset || between.length > 0) {
      this.#problems.push(`a gap from ${gap.from}, but the watcher was at ${at.epoch}:${at.offset}`);
    }
    if (gap.reason === 'trimmed' && gap.lost !== to.offset - from.offset) {
      this.#problems.push(`a gap from ${gap.from} to ${gap.to} says ${gap.lost} were lost`);
    }
    this.#lost += gap.lost ?? 0;
    this.#at = to;
  }

  #end(at: { epoch: string; offset: number }): void {
    const last = this.#log.at(-1);
    if (!last) return;
    if (at.epoch !== last.epoch) {
      this.#problems.push(`the record ends in epoch ${at.epoch}, the log stands in ${last.epoch}`);
      return;
    }
    const missing = this.#wanted(this.#between(at.epoch, at.offset, Number.MAX_SAFE_INTEGER));
    if (missing.length > 0) this.#problems.push(`the record ends at ${at.offset}, missed ${describe(missing)}`);
  }
}

function describe(events: readonly LoggedEvent[]): string {
  const shown = events.slice(0, 3).map(({ offset, type }) => `${offset} ${type}`);
  return `${events.length} (${shown.join(', ')}${events.length > 3 ? ', …' : ''})`;
}

/** Index of the first event behind an offset, by halving: records are long, and each of their events asks. */
function indexBehind(events: readonly LoggedEvent[], offset: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle]!.offset <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
