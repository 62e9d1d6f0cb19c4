import { setTimeout as wait } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { LoggedEpoch } from './oracle.js';

/** One event as it stands in the stream, read without any code of the product. */
export interface TapEvent {
  readonly epoch: string;
  readonly offset: number;
  /** Redis' clock, milliseconds. */
  readonly at: number;
  /** The daemon whose script wrote it. */
  readonly by: string;
  readonly type: string;
  readonly subject: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: every type has its own shape
  readonly data: any;
  /** Written by a script about its own change; published events have more columns. */
  readonly own: boolean;
  /** What a published event says of itself; empty for our own, and where it says nothing. */
  readonly id: string;
  readonly source: string;
  /** First offset of its entry: events of one script share it. */
  readonly entry: number;
}

interface Era {
  readonly epoch: string;
  readonly first: number;
  readonly events: TapEvent[];
}

/** Longer than Redis is away in any fault. */
const lostMs = 3000;

/**
 * The log as it really is, read straight from Redis on a link without faults. What Redis forgets later (a restart without
 * its data, a rewind) stays here, so that afterwards one can tell what was lost from what never was.
 */
export class Tap {
  readonly eras: Era[] = [];
  readonly problems: string[] = [];
  readonly #client: Redis;
  readonly #prefix: string;
  #timer: NodeJS.Timeout | undefined;
  #busy: Promise<void> | undefined;
  #stopped = false;
  #storedHead = 0;

  constructor(client: Redis, namespace: string) {
    this.#client = client;
    this.#prefix = `sb:{${namespace}}:`;
  }

  get head(): { epoch: string; offset: number } {
    const era = this.eras.at(-1);
    return { epoch: era?.epoch ?? '', offset: era ? (era.events.at(-1)?.offset ?? era.first - 1) : 0 };
  }

  /** The history that stands: what the last epoch has kept of the ones before, and its own. */
  get standing(): TapEvent[] {
    const parts: TapEvent[][] = [];
    let ceiling = Number.MAX_SAFE_INTEGER;
    for (let i = this.eras.length - 1; i >= 0; i--) {
      const { first, events } = this.eras[i]!;
      parts.unshift(events.filter(({ offset }) => offset <= ceiling));
      if (first === 1) break;
      ceiling = Math.min(ceiling, first - 1);
    }
    return parts.flat();
  }

  get epochs(): readonly LoggedEpoch[] {
    return this.eras;
  }

  start(everyMs = 15): void {
    const again = (): void => {
      if (this.#stopped) return;
      this.poll()
        .catch(() => undefined)
        .finally(() => {
          if (!this.#stopped) this.#timer = setTimeout(again, everyMs);
        });
    };
    again();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#busy?.catch(() => undefined);
  }

  /** With nobody writing, the counters and the stream agree. */
  checkHead(): string[] {
    const { offset } = this.head;
    return this.#storedHead === offset
      ? []
      : [`meta says the head is ${this.#storedHead}, the stream ends at ${offset}`];
  }

  /** Reads on to the end of the log. Rejects while Redis is away. */
  async poll(): Promise<void> {
    const before = this.#busy;
    const run = (async () => {
      await before?.catch(() => undefined);
      while (await this.#page()) {}
    })();
    this.#busy = run;
    await run;
  }

  async #page(): Promise<boolean> {
    const { offset } = this.head;
    const answer = this.#client
      .multi()
      .hmget(`${this.#prefix}meta`, 'epoch', 'offset')
      .xrange(`${this.#prefix}log`, `${offset + 1}-0`, '+', 'COUNT', 500)
      .zrange(`${this.#prefix}epochs`, '0', '-1', 'WITHSCORES')
      .exec();
    // A transaction that is cut in the middle may never be answered: it is asked again.
    const asked = await Promise.race([answer, wait(lostMs, 'lost' as const, { ref: false })]);
    if (asked === 'lost') return true;
    if (!asked) return false;
    const [meta, rows, epochs] = asked.map(([error, value]) => {
      if (error) throw error;
      return value;
    }) as [(string | null)[], [string, string[]][], string[]];
    const [epoch, stored] = meta;
    const last = this.eras.at(-1);
    if (!epoch) return false;
    if (last && epoch !== last.epoch) {
      // Rewound or emptied, perhaps more than once since the last look: what stands behind the fork is read from there.
      const forked = unknown(epochs, this.eras).find(({ first }) => first <= offset);
      if (forked) {
        this.eras.push({ ...forked, events: [] });
        return true;
      }
    }
    for (const [id, fields] of rows) this.#take(id, fields);
    // Lower in between: rewound, and nobody has written since, so no new epoch says so yet.
    this.#storedHead = Number(stored);
    return rows.length === 500;
  }

  #take(id: string, fields: readonly string[]): void {
    const field = (name: string): string => fields[fields.indexOf(name) + 1] ?? '';
    const [epoch, by, at, count] = [field('epoch'), field('by'), Number(field('at')), Number(field('n'))];
    const offset = Number.parseInt(id, 10);
    const lines = field('events').split('\n');
    const entry = offset - count + 1;
    if (lines.length !== count) this.problems.push(`entry ${id} says n=${count} and has ${lines.length} lines`);
    if (entry !== this.head.offset + 1)
      this.problems.push(`entry ${id} (n=${count}) follows ${this.head.offset}: not dense`);
    let era = this.eras.at(-1);
    if (era?.epoch !== epoch) {
      era = { epoch, first: entry, events: [] };
      this.eras.push(era);
    }
    const types = new Set<string>();
    lines.forEach((line, i) => {
      const [type, subject, data, ...foreign] = line.split('\t') as [string, string, string, ...string[]];
      types.add(type);
      era.events.push({
        epoch,
        offset: entry + i,
        at,
        by,
        type,
        subject: JSON.parse(subject),
        data: JSON.parse(data),
        own: foreign.length === 0,
        id: JSON.parse(foreign[0] || 'null') ?? '',
        source: JSON.parse(foreign[1] || 'null') ?? '',
        entry,
      });
    });
    const said = new Set(field('types').split(' '));
    if (said.size !== types.size || [...types].some((type) => !said.has(type))) {
      this.problems.push(`entry ${id} names the types ${[...said]} and has ${[...types]}`);
    }
  }
}

/** Epochs that Redis knows and we do not, in their order. `flat` is name and first offset in turn. */
function unknown(flat: readonly string[], eras: readonly Era[]): { epoch: string; first: number }[] {
  const found: { epoch: string; first: number }[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    if (!eras.some(({ epoch }) => epoch === flat[i])) found.push({ epoch: flat[i]!, first: Number(flat[i + 1]) });
  }
  return found;
}
