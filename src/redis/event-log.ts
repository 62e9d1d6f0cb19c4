import { type Observable, Subject } from 'rxjs';
import type { Service } from '../lib/service.js';
import type { Position } from '../protocol/position.js';
import { parsePosition } from '../protocol/position.js';
import type { Client } from './connection.js';
import { deadline, pause } from './deadline.js';
import { logKey, metaKey } from './keys.js';
import { type LogBatch, LogEntry, type LogItem } from './log-entry.js';
import { type LogPage, ownSource, type PageBounds, readPage, touchLog } from './log-page.js';
import { LogRing } from './log-ring.js';
import { toGap } from './log-view.js';
import type { Namespace } from './namespace.js';

export interface EventLogOptions {
  readonly namespace: Namespace;
  /** A new connection for blocking reads, not yet connected. Called again whenever the last one is in doubt. */
  readonly open: () => Client;
  readonly readBlockMs: number;
  /** Told of every fault; the reader goes on by itself. */
  readonly onError?: (error: unknown) => void;
  /** Most bytes of recent entries in memory. */
  readonly ringBytes?: number;
}

/** Beyond the block time, after which a read that has not answered is given up together with its connection. */
const graceMs = 1500;
const connectMs = 3000;
const entriesMin = 8;
const entriesMax = 512;
/** A reply larger than this halves what is asked for next. */
const replyBytes = 4 * 1024 * 1024;
const pageBounds: PageBounds = { entries: 200, bytes: 1024 * 1024 };

/**
 * The one reader of a namespace's log in this daemon: a blocking XREAD from its own cursor, again and again.
 *
 * A blocking read is the easiest thing to lose: after a cut link it may never settle, behind a silent one it waits for
 * ever, after a FLUSHALL or a rewind it waits for offsets that will not come for hours. So every read has a deadline of
 * its own, an instance in doubt is thrown away and another begins at the cursor, and every empty read compares epoch
 * and head with Redis. What XREAD brings is taken on only if it joins the cursor without a hole in the same epoch;
 * everything else is settled by one page that Redis judges in one step (log-page.ts).
 */
export class EventLog implements Service {
  readonly name: string;
  readonly namespace: Namespace;
  readonly ring: LogRing;
  readonly batch$: Observable<LogBatch>;
  readonly #batches = new Subject<LogBatch>();
  readonly #options: EventLogOptions;
  readonly #source: string;
  #client: Client | undefined;
  #entries = 64;
  #running: Promise<void> | undefined;
  #stop = new AbortController();
  #lastReadAt = performance.now();
  #faults = 0;

  constructor(options: EventLogOptions) {
    this.name = `event-log ${options.namespace.name}`;
    this.namespace = options.namespace;
    this.ring = new LogRing(options.ringBytes ?? 4 * 1024 * 1024);
    this.batch$ = this.#batches.asObservable();
    this.#options = options;
    this.#source = ownSource(options.namespace.name);
  }

  /** Up to here this daemon has read. */
  get position(): Position {
    return this.ring.head;
  }

  /** Since the last answer of Redis to this reader. Beyond twice the block time the reader is deaf. */
  get readerAgeMs(): number {
    return performance.now() - this.#lastReadAt;
  }

  /** `readerAgeMs` above which /healthz should not call this reader well. */
  get deafMs(): number {
    return 2 * (this.#options.readBlockMs + graceMs);
  }

  /** Connections that were given up since the start. */
  get faults(): number {
    return this.#faults;
  }

  /** Resolves when the head is known; events after it will come. Rejects if Redis does not answer. */
  async start(): Promise<void> {
    if (this.#running) return;
    this.#stop = new AbortController();
    await this.namespace.call(touchLog);
    const head = parsePosition(this.namespace.seenPosition);
    if (!head) throw new Error(`no head of the log of ${this.namespace.name}`);
    this.ring.reset(head);
    this.#lastReadAt = performance.now();
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#discard();
    await this.#running;
    this.#running = undefined;
  }

  /** Entries behind `after` straight from Redis, and whether it still means anything. */
  page(after: Position, bounds: PageBounds = pageBounds): Promise<LogPage> {
    return readPage(this.namespace, after, bounds);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      try {
        if (!this.#client) {
          this.#client = await this.#connect();
          if (failures > 0) await this.#compare(this.#client);
        }
        await this.#read(this.#client);
        failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        this.#faults++;
        this.#options.onError?.(error);
        this.#discard();
        await pause(Math.min(1000, 25 * 2 ** failures++) * (0.5 + Math.random() / 2), signal);
      }
    }
  }

  async #connect(): Promise<Client> {
    const client = this.#options.open();
    client.on('error', () => {}); // heard through the commands that fail
    try {
      await deadline(client.connect(), connectMs, this.#stop.signal);
      return client;
    } catch (error) {
      client.disconnect();
      throw error;
    }
  }

  #discard(): void {
    this.#client?.disconnect();
    this.#client = undefined;
  }

  async #read(client: Client): Promise<void> {
    const { readBlockMs } = this.#options;
    const key = logKey(this.namespace.name);
    const from = `${this.position.offset}-0`;
    const asked = client.xread('COUNT', this.#entries, 'BLOCK', readBlockMs, 'STREAMS', key, from);
    const reply = await deadline(asked, readBlockMs + graceMs, this.#stop.signal);
    this.#lastReadAt = performance.now();
    const rows = reply?.[0]?.[1];
    if (!rows) return await this.#compare(client);
    const entries = rows.map(([id, fields]) => new LogEntry(id, fields, this.#source));
    this.#adapt(entries);
    // A script's reply arrives together with the entry it wrote: who waits for the reply goes first.
    await new Promise(setImmediate);
    this.#stop.signal.throwIfAborted();
    await this.#take(entries);
  }

  /** Entries differ in size by four orders of magnitude: ask for as many as make a reply of some MiB. */
  #adapt(entries: readonly LogEntry[]): void {
    const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
    if (bytes > replyBytes) this.#entries = Math.max(entriesMin, this.#entries >> 1);
    else if (entries.length === this.#entries) this.#entries = Math.min(entriesMax, this.#entries * 2);
  }

  /** Nothing came: is there really nothing, or is the log no longer the one that the cursor belongs to? */
  async #compare(client: Client): Promise<void> {
    const asked = client.hmget(metaKey(this.namespace.name), 'epoch', 'offset');
    const [epoch, offset] = await deadline(asked, graceMs, this.#stop.signal);
    this.#lastReadAt = performance.now();
    const here = this.position;
    if (epoch === here.epoch && Number(offset) === here.offset) return;
    // Behind the cursor, or gone: nobody has written since it happened. Whoever waits should not wait for that.
    if (epoch !== here.epoch || Number(offset) < here.offset) await this.#live(this.namespace.call(touchLog));
    await this.#settle();
  }

  async #take(entries: readonly LogEntry[]): Promise<void> {
    const batch: LogItem[] = [];
    let regular = true;
    for (const entry of entries) {
      const { epoch, offset } = this.position;
      if (entry.first !== offset + 1) regular = false;
      else if (entry.epoch !== epoch) {
        const began = entry.events[0];
        regular = began?.own === true && began.type === 'epoch.began';
        if (regular) batch.push({ kind: 'epoch', position: { epoch: entry.epoch, offset } });
      }
      if (!regular) break;
      batch.push(entry);
      this.ring.push(entry);
    }
    this.#emit(batch);
    if (!regular) await this.#settle();
  }

  /** Lets Redis say what the cursor means, and goes on where it says. */
  async #settle(): Promise<void> {
    const from = this.position;
    const { view, verdict, entries } = await this.#live(this.page(from));
    if (verdict.kind === 'ok') {
      const batch: LogItem[] = [];
      for (const entry of entries) {
        const { epoch, offset } = this.position;
        if (entry.epoch !== epoch) batch.push({ kind: 'epoch', position: { epoch: entry.epoch, offset } });
        batch.push(entry);
        this.ring.push(entry);
      }
      this.#emit(batch);
      return;
    }
    const gap = toGap(from, verdict, view);
    this.ring.reset(gap.to);
    this.#emit([gap]);
  }

  /** Commands have a timeout of their own; only a stop must not wait for it. */
  #live<T>(promise: Promise<T>): Promise<T> {
    return deadline(promise, 60_000, this.#stop.signal);
  }

  #emit(batch: LogBatch): void {
    if (batch.length > 0) this.#batches.next(batch);
  }
}
