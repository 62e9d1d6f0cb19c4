import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';

/** What arrived at all subscribers of a process. */
export interface Tally {
  /** Lines that are events. */
  lines: number;
  /** Messages they came in. */
  messages: number;
  bytes: number;
}

interface Waiting {
  resolve(): void;
  reject(error: Error): void;
}

const shared = Buffer.allocUnsafeSlow(256 * 1024);
const nothing = Buffer.alloc(0);
const [text, close, ping] = [1, 8, 9];
const newline = 10;

/**
 * A WebSocket client that only counts: a thousand of them must not be what is slow. It reads into one buffer that all
 * share, looks at frame headers and the beginnings of lines, and answers pings. The same for whoever sends.
 */
export class Subscriber {
  readonly #socket: Socket;
  readonly #tally: Tally;
  readonly #arrived: () => void;
  readonly #failed: (error: Error) => void;
  #rest: Buffer = nothing;
  #upgraded = false;
  #closing = false;
  #waiting: Waiting | undefined;

  private constructor(url: URL, tally: Tally, arrived: () => void, failed: (error: Error) => void) {
    this.#tally = tally;
    this.#arrived = arrived;
    this.#failed = failed;
    const onread = {
      buffer: shared,
      callback: (size: number): boolean => {
        this.#take(shared.subarray(0, size));
        return true;
      },
    };
    this.#socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true, onread });
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('close', () => this.#fail(new Error('the server closed the connection of a subscriber')));
    const key = randomBytes(16).toString('base64');
    this.#socket.write(
      `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    );
  }

  /** `arrived` is told after every read that had events in it, `failed` of an end that was not asked for. */
  static async open(
    url: string,
    tally: Tally,
    arrived: () => void,
    failed: (error: Error) => void,
  ): Promise<Subscriber> {
    const subscriber = new Subscriber(new URL(url), tally, arrived, failed);
    await subscriber.#wait();
    return subscriber;
  }

  /** Sends a request; resolves with its reply. */
  async ask(line: string): Promise<void> {
    this.#send(text, Buffer.from(line));
    await this.#wait();
  }

  stopReading(): void {
    this.#socket.pause();
  }

  end(): void {
    this.#closing = true;
    this.#socket.destroy();
  }

  #wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  #done(error?: Error): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (error) waiting?.reject(error);
    else waiting?.resolve();
  }

  #fail(error: Error): void {
    if (this.#closing) return;
    this.#done(error);
    this.#failed(error);
  }

  #take(chunk: Buffer): void {
    const data = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const before = this.#tally.lines;
    let at = this.#upgraded ? 0 : this.#upgrade(data);
    while (this.#upgraded && at + 2 <= data.length) {
      let size = data[at + 1]!;
      let from = at + 2;
      if (size >= 126) {
        from = at + (size === 126 ? 4 : 10);
        if (from > data.length) break;
        size = size === 126 ? data.readUInt16BE(at + 2) : data.readUInt32BE(at + 6);
      }
      if (from + size > data.length) break;
      this.#frame(data[at]! & 15, data.subarray(from, from + size));
      at = from + size;
    }
    this.#rest = at === data.length ? nothing : Buffer.from(data.subarray(at));
    if (this.#tally.lines > before) this.#arrived();
  }

  /** Answers where the frames begin, 0 while the answer to the upgrade is not complete. */
  #upgrade(data: Buffer): number {
    const end = data.indexOf('\r\n\r\n');
    if (end < 0) return 0;
    if (data.toString('latin1', 0, 12) !== 'HTTP/1.1 101') {
      this.#fail(new Error(`no upgrade: ${data.toString('latin1', 0, end)}`));
      return data.length;
    }
    this.#upgraded = true;
    this.#done();
    return end + 4;
  }

  #frame(kind: number, payload: Buffer): void {
    if (kind === text) this.#message(payload);
    else if (kind === ping) this.#send(10, payload);
    else if (kind === close) this.#fail(new Error(`closed: ${payload.toString('utf8', 2)}`));
  }

  #message(payload: Buffer): void {
    const before = this.#tally.lines;
    for (let start = 0; start < payload.length; ) {
      const found = payload.indexOf(newline, start);
      const end = found < 0 ? payload.length : found;
      // {"op":"event": no other line has this there.
      if (payload[start + 7] === 0x65 && payload[start + 8] === 0x76) {
        this.#tally.lines++;
        this.#tally.bytes += end - start;
      } else this.#other(payload.toString('utf8', start, end));
      start = end + 1;
    }
    if (this.#tally.lines > before) this.#tally.messages++;
  }

  /** Replies end with a wait; what else there is (hello, positions, heartbeats) is nothing to count. */
  #other(line: string): void {
    if (!line.startsWith('{"id":')) return;
    this.#done(/^\{"id":\d+,"error"/.test(line) ? new Error(line) : undefined);
  }

  /** Short frames only, masked with zeros as clients have to. */
  #send(kind: number, payload: Buffer): void {
    if (payload.length > 125) throw new RangeError(`a frame of ${payload.length} bytes; at most 125 are sent`);
    this.#socket.write(Buffer.concat([Buffer.from([0x80 | kind, 0x80 | payload.length, 0, 0, 0, 0]), payload]));
  }
}
