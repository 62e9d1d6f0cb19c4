import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { lineBytesMax, linesMax } from './options.js';

export type Frame = Record<string, unknown>;

export interface SocketHooks {
  /** One message has come; called before its lines. */
  message(): void;
  frame(frame: Frame): void;
  /** There is room again after `hasRoom` was false. */
  drained(): void;
  /** A line that is not a JSON object. */
  malformed(error: Error): void;
  /** Exactly once, whatever ended it. `status` is that of a refused upgrade. */
  closed(code: number, reason: string, error: Error | undefined, status: Refused | undefined): void;
}

export interface Refused {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
}

export interface SocketOptions {
  readonly url: string;
  readonly token: string | undefined;
  readonly sendBytesMax: number;
  readonly handshakeTimeoutMs: number;
}

/** One WebSocket: joins the lines of a turn into messages, splits messages into lines, knows when it is full. */
export class Socket {
  /** By `performance.now()`: the last time anything came. */
  heardAt = performance.now();
  private readonly ws: WebSocket;
  private readonly hooks: SocketHooks;
  private readonly sendBytesMax: number;
  private lines: string[] = [];
  private bytes = 0;
  private wasFull = false;
  private gone = false;
  private error: Error | undefined;
  private refused: Refused | undefined;

  constructor(options: SocketOptions, hooks: SocketHooks) {
    this.hooks = hooks;
    this.sendBytesMax = options.sendBytesMax;
    this.ws = new WebSocket(options.url, ['signalbox.v1'], {
      perMessageDeflate: false,
      handshakeTimeout: options.handshakeTimeoutMs,
      // The daemon's messages stay within 1 MiB; the rest is leeway for a newer one.
      maxPayload: 4 * lineBytesMax,
      ...(options.token === undefined ? {} : { headers: { authorization: `Bearer ${options.token}` } }),
    });
    this.ws.on('error', (error) => {
      this.error ??= error;
    });
    this.ws.on('unexpected-response', (_request, response) => this.onRefused(response));
    this.ws.on('message', (data: Buffer) => this.onMessage(data.toString()));
    this.ws.on('ping', this.heard);
    this.ws.on('pong', this.heard);
    this.ws.on('close', (code, reason) => this.onClose(code, reason.toString()));
  }

  get hasRoom(): boolean {
    if (this.ws.bufferedAmount + this.bytes < this.sendBytesMax) return true;
    this.wasFull = true;
    return false;
  }

  /** `line` leaves with the next `flush`, or earlier when a message is full. */
  write(line: string, bytes: number): void {
    if (this.lines.length >= linesMax || this.bytes + bytes + this.lines.length > lineBytesMax) this.flush();
    this.lines.push(line);
    this.bytes += bytes;
  }

  flush(): void {
    if (this.lines.length === 0) return;
    const message = this.lines.length === 1 ? this.lines[0]! : this.lines.join('\n');
    this.lines = [];
    this.bytes = 0;
    if (this.ws.readyState === WebSocket.OPEN) this.ws.send(message, this.sent);
  }

  ping(): void {
    if (this.ws.readyState === WebSocket.OPEN) this.ws.ping();
  }

  pause(): void {
    this.ws.pause();
  }

  resume(): void {
    this.heard();
    this.ws.resume();
  }

  /** Says goodbye; a peer that does not answer is cut after a second. */
  close(code: number, reason = ''): void {
    this.flush();
    if (this.ws.isPaused) this.ws.resume();
    this.ws.close(code, reason);
    setTimeout(() => this.ws.terminate(), 1000).unref();
  }

  /** Cuts it: the link is dead or not to be trusted. `closed` comes at once. */
  terminate(): void {
    this.ws.terminate();
    this.onClose(1006, 'cut');
  }

  private readonly heard = (): void => {
    this.heardAt = performance.now();
  };

  private readonly sent = (): void => {
    if (!this.wasFull || this.gone) return;
    this.wasFull = false;
    this.hooks.drained();
  };

  private onMessage(text: string): void {
    if (this.gone) return;
    this.heard();
    this.hooks.message();
    if (!text.includes('\n')) {
      this.onLine(text);
      return;
    }
    for (const line of text.split('\n')) if (line !== '') this.onLine(line);
  }

  private onLine(line: string): void {
    if (this.gone) return;
    let frame: unknown;
    try {
      frame = JSON.parse(line);
    } catch (error) {
      this.hooks.malformed(error as Error);
      return;
    }
    if (typeof frame === 'object' && frame !== null) this.hooks.frame(frame as Frame);
    else this.hooks.malformed(new Error('a line of the daemon is not an object'));
  }

  private onRefused(response: IncomingMessage): void {
    const after = Number(response.headers['retry-after']);
    this.refused = {
      status: response.statusCode ?? 0,
      retryAfterMs: Number.isFinite(after) ? after * 1000 : undefined,
    };
    this.error ??= new Error(`the upgrade was refused with HTTP ${this.refused.status}`);
    this.ws.terminate();
  }

  private onClose(code: number, reason: string): void {
    if (this.gone) return;
    this.gone = true;
    this.hooks.closed(code, reason, this.error, this.refused);
  }
}
