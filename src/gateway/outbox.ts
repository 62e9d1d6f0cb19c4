import type { Socket } from 'node:net';
import { closeCodes } from '../protocol/close-codes.js';
import type { Flusher } from './flusher.js';
import { pingBytesMax, writePing } from './framing.js';
import { Lanes } from './lanes.js';
import { guarded } from './probes.js';
import type { Settled } from './receipts.js';
import { abandonScratch, scratch, scratchBytes } from './scratch.js';

/** What an outbox tells its connection. */
export interface OutboxOwner {
  readonly writable: boolean;
  /** Task lines went to the socket behind ping `number`; or, `undefined`, one waits for it to take more. */
  wrote(number: number | undefined, settled: readonly Settled[]): void;
  /** The socket takes no more for now; or, `false`, it took everything. */
  blocked(is: boolean): void;
  close(code: number, reason: string, how: 'stalled'): void;
}

/** A feed writer never has more than this waiting in one socket; what the kernel holds comes on top. */
const feedWindowBytes = 256 * 1024;

/**
 * Everything that is written to one socket. Lines wait in two lanes and go out at the end of the turn in one write.
 * While the kernel has not taken the last write, lanes wait here and not in the socket: what is urgent can still pass
 * what is not, and what was never written is known to be unwritten.
 *
 * The feed lane is bounded by its writers, who ask `room()`: the log is their buffer. The control lane has nobody to
 * ask and is bounded by `outboxBytes`: beyond it the connection is closed.
 */
export class Outbox {
  readonly #socket: Socket;
  readonly #owner: OutboxOwner;
  readonly #flusher: Flusher;
  readonly #clock: { readonly now: number };
  readonly #lineBytes: number;
  readonly #outboxBytes: number;
  readonly #lanes: Lanes;
  readonly #done = (error?: Error | null): void => {
    // A write that failed is followed by the end of the socket; nothing more is handed to it.
    if (!error) this.#finished();
  };
  /** Encoded ahead of its turn (`seal`): goes out first. */
  #sealed: Buffer[] = [];
  #sealedBytes = 0;
  #settled: Settled[] = [];
  #unwritten: (() => void)[] = [];
  #wake: (() => void) | undefined;
  #pings = 0;
  #pingDue = false;
  #dirty = false;
  #blocked = false;
  #writes = 0;
  #ended = false;
  /** When lines were last written. */
  spokeAt: number;

  constructor(
    socket: Socket,
    owner: OutboxOwner,
    { flusher, wheel }: { readonly flusher: Flusher; readonly wheel: { readonly now: number } },
    bounds: { readonly lineBytes: number; readonly outboxBytes: number },
  ) {
    this.#socket = socket;
    this.#owner = owner;
    this.#flusher = flusher;
    this.#clock = wheel;
    this.spokeAt = wheel.now;
    this.#lineBytes = bounds.lineBytes;
    this.#outboxBytes = bounds.outboxBytes;
    this.#lanes = new Lanes(bounds.lineBytes);
  }

  /** Number of the last ping that was written. */
  get pings(): number {
    return this.#pings;
  }

  /** True while the kernel has not taken the last write. */
  get blocked(): boolean {
    return this.#blocked;
  }

  /** What waits here while the socket is blocked; the socket itself holds at most one flush more. */
  get backlogBytes(): number {
    return this.#blocked ? this.#lanes.controlChars + this.#sealedBytes : 0;
  }

  fits(line: string): boolean {
    return line.length * 3 <= this.#lineBytes || Buffer.byteLength(line) <= this.#lineBytes;
  }

  /** A control line. `unwritten` is called if it never reaches the socket. */
  line(text: string, unwritten?: () => void): void {
    if (this.#ended) {
      if (unwritten) guarded('the fate of a reply', unwritten);
      return;
    }
    if (unwritten) this.#unwritten.push(unwritten);
    this.#lanes.addControl(text);
    // A turn with much to say does not wait for its end: the kernel can work meanwhile.
    if (!this.#blocked && this.#lanes.controlChars >= scratchBytes) this.flush();
    if (this.backlogBytes > this.#outboxBytes) {
      this.#owner.close(closeCodes.stalled, 'answers and pushes are not read', 'stalled');
    }
    this.#touch();
  }

  /** A control line whose fate matters: a ping goes ahead of it in the same flush. */
  deliver(text: string, settled: Settled): void {
    if (this.#ended) {
      settled('unwritten');
      return;
    }
    if (this.#blocked) {
      const first = once(settled);
      this.#settled.push(first);
      this.#owner.wrote(undefined, [first]);
    } else this.#settled.push(settled);
    this.line(text);
  }

  ping(): void {
    this.#pingDue = true;
    this.#touch();
  }

  chunk(bytes: Buffer, lines: number): void {
    if (this.#ended) return;
    this.#lanes.addFeed(bytes, lines);
    this.#touch();
  }

  room(): number {
    if (this.#ended) return 0;
    const waiting = this.#socket.writableLength + this.#lanes.feedBytes + this.#lanes.controlChars + this.#sealedBytes;
    return Math.min(feedWindowBytes, this.#outboxBytes / 4) - waiting;
  }

  onDrain(wake: () => void): void {
    this.#wake = wake;
    this.#touch();
  }

  /** What waits now goes ahead of what follows, whatever the lane. */
  seal(): void {
    if (this.#ended || this.#lanes.empty) return;
    if (!this.#blocked) {
      this.flush();
      return;
    }
    const bytes = Buffer.concat(this.#lanes.encodeParts());
    this.#sealed.push(bytes);
    this.#sealedBytes += bytes.length;
  }

  /**
   * The last write: the control lines of this turn, then `last`. A socket that is blocked only gets `last`, behind
   * what it holds already: what it could not take so far is unwritten, and so is everything after.
   */
  end(last: string): void {
    if (this.#ended) return;
    if (this.#blocked || !this.#owner.writable) this.#drop();
    else this.#lanes.dropFeed();
    if (this.#owner.writable) {
      this.#lanes.addControl(last);
      this.#write();
    }
    this.#ended = true;
  }

  /** The socket is gone. */
  close(): void {
    this.#ended = true;
    this.#wake = undefined;
    this.#drop();
  }

  flush(): void {
    this.#dirty = false;
    if (this.#ended || this.#blocked || !this.#owner.writable) return;
    this.#write();
    this.#rouse();
  }

  #touch(): void {
    if (this.#dirty || this.#blocked || this.#ended) return;
    this.#dirty = true;
    this.#flusher.add(this);
  }

  #rouse(): void {
    if (!this.#wake || this.room() <= 0) return;
    const wake = this.#wake;
    this.#wake = undefined;
    guarded('a feed writer', wake);
  }

  /** Forgets what waits and says so. */
  #drop(): void {
    const settled = this.#settled;
    const unwritten = this.#unwritten;
    this.#settled = [];
    this.#unwritten = [];
    this.#lanes.drop();
    this.#sealed = [];
    this.#sealedBytes = 0;
    for (const tell of settled) guarded('the fate of a task line', () => tell('unwritten'));
    for (const tell of unwritten) guarded('the fate of a reply', tell);
  }

  #write(): void {
    const silent = this.#lanes.empty && this.#sealed.length === 0;
    const settled = this.#settled;
    const ping = this.#pingDue || settled.length > 0 ? ++this.#pings : 0;
    if (silent && ping === 0) return;
    if (!silent) this.spokeAt = this.#clock.now;
    this.#pingDue = false;
    if (this.#unwritten.length > 0) this.#unwritten = [];
    const small = this.#sealed.length === 0 && this.#lanes.bytesMost + pingBytesMax <= scratchBytes;
    if (small && this.#socket.writableLength === 0) this.#writeShared(ping);
    else this.#writeParts(ping);
    if (settled.length > 0) {
      this.#settled = [];
      this.#owner.wrote(ping, settled);
    }
    if (this.#blocked || this.#socket.writableLength === 0) return;
    this.#blocked = true;
    this.#owner.blocked(true);
  }

  /** The common case: put together in the shared buffer, one write. */
  #writeShared(ping: number): void {
    const buffer = scratch();
    const at = this.#lanes.encodeInto(buffer, ping === 0 ? 0 : writePing(buffer, 0, ping));
    this.#send(buffer.subarray(0, at));
    if (this.#socket.writableLength > 0) abandonScratch();
  }

  /** Much to write: chunks go to the kernel as they are, in one call. */
  #writeParts(ping: number): void {
    const parts = [...this.#sealed, ...this.#lanes.encodeParts()];
    this.#sealed = [];
    this.#sealedBytes = 0;
    if (ping > 0) {
      const frame = Buffer.allocUnsafe(pingBytesMax);
      parts.unshift(frame.subarray(0, writePing(frame, 0, ping)));
    }
    this.#socket.cork();
    for (let i = 0; i < parts.length - 1; i++) this.#socket.write(parts[i]!);
    this.#send(parts.at(-1)!);
    this.#socket.uncork();
  }

  #send(bytes: Buffer): void {
    this.#writes++;
    this.#socket.write(bytes, this.#done);
  }

  #finished(): void {
    this.#writes--;
    if (this.#writes > 0) return;
    if (this.#blocked) {
      this.#blocked = false;
      this.#owner.blocked(false);
      this.flush();
    } else this.#rouse();
  }
}

/** A line that has been silent already may still be written, or dropped. */
function once(settled: Settled): Settled {
  let told = false;
  return (fate) => {
    if (told) return;
    told = true;
    settled(fate);
  };
}
