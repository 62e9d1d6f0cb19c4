import { publishedArgs } from '../feed/published.js';
import type { Namespace } from '../redis/namespace.js';
import { type Done, IngressLease } from './lease.js';
import { readMessage } from './message.js';
import { Rejections } from './rejections.js';
import { Tape, type TapeItem, type TapePlace } from './tape.js';

export interface AppenderOptions {
  readonly leaseMs: number;
  readonly publishedBytes: number;
  readonly publishWindowMs: number;
  readonly tapeBytes: number;
  /** How long ago it is certain that the link was good. */
  readonly provenAgoMs: () => number;
}

const batch = { items: 200, bytes: 512 * 1024 };
const retryMs = 200;
const lastMarkMs = 300;

/**
 * What services PUBLISH into one namespace, on its way into the log. Every daemon listens and keeps a tape; one of them
 * holds the lease and appends. Whatever goes wrong (a lost reply, a lost lease, a store that was emptied), the way back
 * is the same: take the lease again, ask how far the log is, and go on from there on the tape.
 */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #tape: Tape;
  readonly #lease: IngressLease;
  readonly #rejections = new Rejections();
  #gap = false;
  #wantsLease = true;
  #renewDue = false;
  /** Somebody else appends, who will have given a sign of life before this moment. */
  #othersUntil = 0;
  #listening = false;
  #working: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #onMark: (() => void) | undefined;

  constructor(namespace: Namespace, options: AppenderOptions) {
    this.#options = options;
    this.#tape = new Tape(options.tapeBytes);
    this.#lease = new IngressLease(namespace, options);
  }

  get appending(): boolean {
    return this.#lease.held;
  }
  get waiting(): number {
    return this.#tape.length;
  }
  get bytes(): number {
    return this.#tape.bytes;
  }

  /** The link is up: from now on everything is heard. */
  listen(): void {
    this.#tape.restart(performance.now());
    this.#listening = true;
    this.#wantsLease = true;
    this.#work();
  }

  /** The link was cut. What was heard is appended, then somebody who hears better takes over at once. */
  deafen(): void {
    this.#listening = false;
    if (this.appending) this.#work();
  }

  hear(channel: string, payload: Buffer): void {
    if (!this.#listening) return;
    const now = performance.now();
    const fits = payload.length <= this.#options.publishedBytes * 2;
    // Copied: a small message would otherwise hold on to the whole read it came in.
    this.#tape.push(channel, fits ? Buffer.from(payload) : undefined, payload.length, now, this.appending);
    if (!this.appending && now > this.#othersUntil) this.#wantsLease = true;
    this.#work();
  }

  /** A mark of the appender, ourselves included; an empty one says that it has gone. */
  marked(fence: string, mark: string, place: TapePlace): void {
    const own = fence === this.#lease.fence;
    if (mark !== '') {
      this.#tape.mark(mark);
      this.#onMark?.();
      if (own) return;
      this.#othersUntil = performance.now() + this.#options.leaseMs;
      if (Number(fence) > Number(this.#lease.fence)) this.#lease.fence = '';
      if (place.mark !== '') this.#tape.seek(place);
    } else if (!own) {
      this.#othersUntil = 0;
      this.#wantsLease = true;
      this.#work();
    }
  }

  /** A standby has come that has not heard a mark yet. */
  asked(): void {
    if (!this.appending) return;
    this.#renewDue = true;
    this.#work();
  }

  /** By the clock: keeps the lease, or takes it from one who has gone silent. */
  tick(): void {
    if (this.appending) this.#renewDue = true;
    else if (performance.now() > this.#othersUntil) this.#wantsLease = true;
    this.#work();
  }

  /** Appends what was heard and gives the lease back, counted from a mark that every standby has heard by then. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.appending && this.#listening) await this.#lastMark();
    this.#listening = false;
    this.#closed = true;
    await this.#working;
    await this.#drain().catch(() => undefined);
  }

  async #lastMark(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const heard = new Promise<void>((resolve) => {
      this.#onMark = resolve;
      timer = setTimeout(resolve, lastMarkMs);
    });
    this.asked();
    await heard;
    clearTimeout(timer); // it would keep the process awake
  }

  #work(): void {
    if (this.#working || this.#closed || this.#timer) return;
    this.#working = this.#run().then(
      () => {
        this.#working = undefined;
      },
      () => this.#later(),
    );
  }

  /** The outcome of the last call is not known: nothing is taken for granted, not even the lease. */
  #later(): void {
    this.#working = undefined;
    this.#lease.fence = '';
    this.#wantsLease = this.#listening;
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#work();
    }, retryMs);
  }

  async #run(): Promise<void> {
    // In a later turn: what arrives together goes in one script.
    await new Promise((resolve) => setImmediate(resolve));
    while (!this.#closed) {
      if (!this.appending) {
        if (!this.#wantsLease || !this.#listening || !(await this.#take())) return;
      } else if (this.#gap || this.#tape.length > 0) await this.#append();
      else if (!this.#listening) return await this.#lease.release(this.#done([]));
      else if (!this.#renewDue) return;
      if (this.#renewDue && this.appending && !this.#gap) {
        this.#renewDue = false;
        await this.#lease.renew(this.#done([]));
      }
      // Lost to somebody else, or with the store: asking tells.
      if (!this.appending) this.#wantsLease = true;
    }
  }

  async #take(): Promise<boolean> {
    this.#wantsLease = false;
    const asked = performance.now();
    const answer = await this.#lease.take(Math.ceil(asked - this.#tape.since));
    if (!answer.taken) {
      this.#othersUntil = performance.now() + answer.freeInMs;
      return false;
    }
    this.#gap = answer.done !== undefined && !this.#goOnBehind(answer.done, asked);
    return true;
  }

  /**
   * Exactly behind what is in the log, if we know the mark it is counted from. If we do not but were listening before
   * the last moment that is surely in the log, from that moment on: a message of the seconds after it may come twice,
   * none is lost. Otherwise there is a gap.
   */
  #goOnBehind({ place, doneAgoMs }: Done, asked: number): boolean {
    return this.#tape.seek(place) || this.#tape.seekTime(asked - doneAgoMs);
  }

  async #append(): Promise<void> {
    const items = this.#tape.peek(batch.items, batch.bytes);
    const args = items.flatMap((item) => this.#argsOf(item));
    if (args.length > 0 || this.#gap) {
      const gapUntilAgo = this.#gap ? Math.ceil(performance.now() - this.#tape.since) : '';
      if (!(await this.#lease.append(args, this.#done(items), gapUntilAgo))) return;
    }
    this.#gap = false;
    this.#tape.drop(items);
  }

  async #drain(): Promise<void> {
    while (this.appending && (this.#gap || this.#tape.length > 0)) await this.#append();
    if (this.appending) await this.#lease.release(this.#done([]));
  }

  /** How far the log is once `items` are in it: before what still waits, and before the link was last known to be good. */
  #done(items: readonly TapeItem[]): Done {
    const waits = this.#tape.heardBehind(items);
    const waitsMs = waits === undefined ? 0 : Math.ceil(performance.now() - waits);
    return { place: this.#tape.placeBehind(items), doneAgoMs: Math.max(this.#options.provenAgoMs(), waitsMs) };
  }

  /** Eight arguments, or none for a rejection beyond the rate. */
  #argsOf(item: TapeItem): (string | number)[] {
    const now = performance.now();
    if (item.kind === 'hole') {
      return ['h', this.#lease.atMs(now - item.since), Math.floor(now - item.until), item.span, '', '', '', ''];
    }
    const { channel, payload, bytes } = item;
    const type = channel.slice(channel.indexOf(':', 'signalbox:'.length) + 1);
    const read = payload ? readMessage(type, payload, this.#options.publishedBytes) : 'tooLarge';
    if (typeof read === 'string') return this.#rejections.argsOf(channel, read, bytes, now);
    return ['p', ...publishedArgs(read)];
  }
}
