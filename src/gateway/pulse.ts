import type { Socket } from 'node:net';
import { closeCodes } from '../protocol/close-codes.js';
import type { Outbox } from './outbox.js';
import type { Receipts } from './receipts.js';
import type { Ticker, Wheel } from './wheel.js';

const never = Number.POSITIVE_INFINITY;

/** What the passing of time does to a connection. */
export interface Pulsed {
  readonly hasTail: boolean;
  /** We do not read it for now, so its silence is ours. */
  readonly paused: boolean;
  /** No frame came, and no byte was drained, for two periods. */
  silent(): void;
  /** Nothing was said for `heartbeatMs` on a connection with a tail. */
  heartbeat(): void;
  close(code: number, reason: string, how?: 'stalled'): void;
  terminate(): void;
}

export interface PulseSettings {
  readonly heartbeatMs: number;
  readonly stallMs: number;
}

/** The dates of one connection: pings, receipts, stalls, heartbeats, deadlines. One entry on the wheel for them all. */
export class Pulse implements Ticker {
  dueAt = never;
  heardAt: number;
  readonly #wheel: Wheel;
  readonly #socket: Socket;
  readonly #outbox: Outbox;
  readonly #receipts: Receipts;
  readonly #owner: Pulsed;
  readonly #settings: PulseSettings;
  #periodMs = never;
  #pingAt = never;
  #pingedAt = never;
  #missed = 0;
  #authBy = never;
  #lingerBy = never;
  /** What was drained when we last looked, and when that was; undefined while nothing is pending. */
  #stall: { mark: number; at: number } | undefined;
  #markAtPing = -1;

  constructor(
    wheel: Wheel,
    parts: { readonly socket: Socket; readonly outbox: Outbox; readonly receipts: Receipts },
    owner: Pulsed,
    settings: PulseSettings,
  ) {
    this.#wheel = wheel;
    this.#socket = parts.socket;
    this.#outbox = parts.outbox;
    this.#receipts = parts.receipts;
    this.#owner = owner;
    this.#settings = settings;
    this.heardAt = wheel.now;
  }

  /** Pings every `periodMs` from now on; the first one spread over the second half of the period. */
  beat(periodMs: number): void {
    if (periodMs === this.#periodMs) return;
    this.#periodMs = periodMs;
    const delayMs = periodMs * (0.5 + Math.random() / 2);
    this.#pingAt = Math.min(this.#pingAt, this.#wheel.now + delayMs);
    this.#wheel.within(this, delayMs);
  }

  /** Credentials have to come within `ms`; `never` calls it off. */
  expectAuth(ms: number): void {
    this.#authBy = this.#wheel.now + ms;
    if (ms !== never) this.#wheel.within(this, ms);
  }

  expectReceipt(ms: number): void {
    this.#wheel.within(this, ms);
  }

  expectTail(): void {
    this.#wheel.within(this, this.#settings.heartbeatMs);
  }

  blocked(is: boolean): void {
    this.#stall = is ? { mark: this.#mark(), at: this.#wheel.now } : undefined;
    if (is) this.#wheel.within(this, this.#settings.stallMs / 4);
  }

  /** We close: the socket has `ms` to go by itself. */
  linger(ms: number): void {
    this.#lingerBy = this.#wheel.now + ms;
    this.#wheel.within(this, ms);
  }

  end(): void {
    this.#wheel.remove(this);
    this.#lingerBy = this.#wheel.now;
  }

  tick(now: number): number {
    if (this.#lingerBy !== never) {
      if (now >= this.#lingerBy) this.#owner.terminate();
      return now >= this.#lingerBy ? never : this.#lingerBy - now;
    }
    if (now >= this.#authBy) {
      this.#authBy = never;
      this.#owner.close(closeCodes.badCredentials, 'no valid credentials in time');
    }
    return Math.min(
      this.#receipts.expire(now) - now,
      this.#authBy - now,
      this.#checkStall(now),
      this.#ping(now),
      this.#speak(now),
    );
  }

  #ping(now: number): number {
    if (now < this.#pingAt) return this.#pingAt - now;
    const drained = this.#markAtPing >= 0 && this.#mark() !== this.#markAtPing;
    const alive = this.heardAt >= this.#pingedAt || drained || this.#pingedAt === never || this.#owner.paused;
    this.#missed = alive ? 0 : this.#missed + 1;
    if (this.#missed >= 2) {
      this.#owner.silent();
      return never;
    }
    this.#outbox.ping();
    this.#pingedAt = now;
    // The kernel taking a ping proves nothing; only a socket that was full and moved was read.
    this.#markAtPing = this.#outbox.blocked ? this.#mark() : -1;
    this.#pingAt = now + this.#periodMs;
    return this.#periodMs;
  }

  #checkStall(now: number): number {
    if (!this.#stall) return never;
    const mark = this.#mark();
    if (mark !== this.#stall.mark) this.#stall = { mark, at: now };
    else if (now - this.#stall.at >= this.#settings.stallMs) {
      this.#owner.close(closeCodes.stalled, 'nothing is read', 'stalled');
      return never;
    }
    return this.#settings.stallMs / 4;
  }

  #speak(now: number): number {
    if (!this.#owner.hasTail) return never;
    const dueAt = this.#outbox.spokeAt + this.#settings.heartbeatMs;
    if (now < dueAt) return dueAt - now;
    this.#owner.heartbeat();
    return this.#settings.heartbeatMs;
  }

  /**
   * A number that changes whenever the kernel takes bytes. What is left of the write under way is known to the handle
   * alone, and a slow reader may need longer for one large write than `stallMs`.
   */
  #mark(): number {
    const handle = (this.#socket as { _handle?: { writeQueueSize?: number } | null })._handle;
    return (this.#socket.bytesWritten - this.#socket.writableLength) * 2 - (handle?.writeQueueSize ?? 0);
  }
}
