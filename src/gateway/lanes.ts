import { linesMax } from '../protocol/frame.js';
import { headerMax, textHeader, writeHeader } from './framing.js';

interface Chunk {
  readonly bytes: Buffer;
  readonly lines: number;
}

const newline = Buffer.from('\n');

/**
 * What waits for one socket, in two lanes: control (replies, pushes, tasks) goes ahead of feed. Lines of a lane are
 * joined into messages of at most `linesMax` lines and `lineBytes` bytes. Holds and encodes; knows no socket.
 */
export class Lanes {
  readonly #lineBytes: number;
  #control: string[] = [];
  #feed: Chunk[] = [];
  /** Characters of the control lane: at most a third of its bytes, and close to what it costs in memory. */
  controlChars = 0;
  feedBytes = 0;

  constructor(lineBytes: number) {
    this.#lineBytes = lineBytes;
  }

  get empty(): boolean {
    return this.#control.length === 0 && this.#feed.length === 0;
  }

  /** Bytes that `encodeInto` will surely not exceed. */
  get bytesMost(): number {
    const messages = this.#control.length + this.#feed.length;
    return this.controlChars * 3 + this.feedBytes + messages * (headerMax + 1);
  }

  addControl(line: string): void {
    this.#control.push(line);
    this.controlChars += line.length;
  }

  addFeed(bytes: Buffer, lines: number): void {
    this.#feed.push({ bytes, lines });
    this.feedBytes += bytes.length;
  }

  dropFeed(): void {
    if (this.#feed.length === 0) return;
    this.#feed = [];
    this.feedBytes = 0;
  }

  drop(): void {
    this.#control = [];
    this.controlChars = 0;
    this.dropFeed();
  }

  /** Writes all messages into `into` from `at` and empties the lanes; answers the index behind them. */
  encodeInto(into: Buffer, at: number): number {
    for (const text of this.#messages()) {
      const bytes = Buffer.byteLength(text);
      at = writeHeader(into, at, bytes);
      at += into.write(text, at);
    }
    for (const part of this.#feedParts()) at += part.copy(into, at);
    this.drop();
    return at;
  }

  /** The same as buffers of their own, feed chunks uncopied. */
  encodeParts(): Buffer[] {
    const parts: Buffer[] = [];
    for (const text of this.#messages()) {
      const bytes = Buffer.byteLength(text);
      const frame = Buffer.allocUnsafe(headerMax + bytes);
      const start = writeHeader(frame, 0, bytes);
      frame.write(text, start);
      parts.push(frame.subarray(0, start + bytes));
    }
    parts.push(...this.#feedParts());
    this.drop();
    return parts;
  }

  #messages(): readonly string[] {
    const lines = this.#control;
    if (lines.length < 2) return lines;
    if (lines.length <= linesMax && this.controlChars * 3 + linesMax <= this.#lineBytes) return [lines.join('\n')];
    return this.#grouped(lines);
  }

  #grouped(lines: readonly string[]): string[] {
    const messages: string[] = [];
    let from = 0;
    let bytes = 0;
    for (let i = 0; i < lines.length; i++) {
      const more = Buffer.byteLength(lines[i]!) + 1;
      if (i > from && (i - from === linesMax || bytes + more > this.#lineBytes)) {
        messages.push(lines.slice(from, i).join('\n'));
        from = i;
        bytes = 0;
      }
      bytes += more;
    }
    messages.push(lines.slice(from).join('\n'));
    return messages;
  }

  #feedParts(): Buffer[] {
    const parts: Buffer[] = [];
    let from = 0;
    while (from < this.#feed.length) {
      let { bytes, lines } = this.#feed[from]!;
      const chunks = [bytes];
      let total = bytes.length;
      for (from++; from < this.#feed.length; from++) {
        ({ bytes } = this.#feed[from]!);
        lines += this.#feed[from]!.lines;
        total += bytes.length + 1;
        if (lines > linesMax || total > this.#lineBytes) {
          total -= bytes.length + 1;
          break;
        }
        chunks.push(newline, bytes);
      }
      parts.push(textHeader(total), ...chunks);
    }
    return parts;
  }
}
