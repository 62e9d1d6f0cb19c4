import { Backoff } from './backoff.js';
import { Closed } from './errors.js';
import type { Settings } from './options.js';
import { type Frame, type Refused, Socket } from './socket.js';

export interface LinkHooks {
  /** A daemon said hello on a new socket. */
  connected(socket: Socket, hello: Frame): void;
  message(): void;
  frame(frame: Frame): void;
  drained(): void;
  /** The socket is gone; another one is tried after `delayMs`. */
  cut(code: number, reason: string, delayMs: number): void;
  /** It is over, for good. */
  ended(closed: Closed): void;
}

/** Our own protocol faults (by ws) and all of 44xx: coming back unchanged would end the same way. */
const isFinal = (code: number): boolean => (code >= 4400 && code <= 4499) || [1002, 1007, 1009].includes(code);

/** A daemon that turned us away does it again at once: only a plain cut of a good connection starts the delays anew. */
const isPlainCut = (code: number): boolean => code === 1006 || code === 1000 || code === 1001 || code === 1005;

/** Drain and overload: this daemon has no place for us, another one may. */
const isSentAway = (code: number): boolean => code === 1012 || code === 1013;

/** Keeps one socket to a daemon: dials, comes back with full jitter, does what the close codes say. */
export class Link {
  socket: Socket | undefined;
  private readonly settings: Settings;
  private readonly hooks: LinkHooks;
  private readonly backoff: Backoff;
  private readonly urls: readonly string[];
  private url = 0;
  private timer: NodeJS.Timeout | undefined;
  private greeted = false;
  private works = false;
  /** From `closed` or a refusal of the session: when to come back, to whatever address. It spreads those who come. */
  private afterMs: number | undefined;
  /** From `drain`: how long this daemon still is there for us. */
  private drainMs: number | undefined;
  private unfit = false;
  /** How many addresses in a row had no place for us. */
  private turnedAway = 0;
  private said: { code: number; reason: string } | undefined;
  private over = false;

  constructor(settings: Settings, hooks: LinkHooks) {
    this.settings = settings;
    this.hooks = hooks;
    this.backoff = new Backoff(settings.backoff.baseMs, settings.backoff.capMs);
    this.urls = typeof settings.url === 'string' ? [settings.url] : settings.url;
  }

  dial(): void {
    const { token, sendBytesMax, connectTimeoutMs } = this.settings;
    this.greeted = false;
    this.works = false;
    this.unfit = false;
    this.afterMs = undefined;
    this.drainMs = undefined;
    this.said = undefined;
    const options = {
      url: this.urls[this.url % this.urls.length]!,
      token,
      sendBytesMax,
      handshakeTimeoutMs: connectTimeoutMs,
    };
    const socket = new Socket(options, {
      message: () => this.hooks.message(),
      frame: (frame) => this.onFrame(frame),
      drained: () => this.hooks.drained(),
      malformed: (error) => this.settings.onError(error),
      closed: (code, reason, error, refused) => this.onClosed(code, reason, error, refused),
    });
    this.socket = socket;
    // Connected is not greeted: something else may listen there.
    this.timer = setTimeout(() => socket.terminate(), connectTimeoutMs);
  }

  /** The session is open: this daemon takes us. */
  worked(): void {
    this.works = true;
    this.turnedAway = 0;
  }

  /** This socket will not do; try again, at the next address if there is one, not before `afterMs` if the daemon said so. */
  retry(afterMs: number | undefined): void {
    this.afterMs = afterMs ?? this.afterMs;
    this.works = false;
    this.unfit = true;
    this.socket?.terminate();
  }

  end(closed: Closed, code = 1000): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    this.socket?.close(code, closed.reason.slice(0, 100));
    this.socket = undefined;
    this.hooks.ended(closed);
  }

  private onFrame(frame: Frame): void {
    if (this.over) return;
    if (frame.op === 'hello' && !this.greeted) {
      this.greeted = true;
      clearTimeout(this.timer);
      this.hooks.connected(this.socket!, frame);
      return;
    }
    if (frame.op === 'drain') this.drainMs = frame.afterMs as number | undefined;
    else if (frame.op === 'closed') {
      this.said = { code: frame.code as number, reason: String(frame.reason ?? '') };
      this.afterMs = (frame.afterMs as number | undefined) ?? this.afterMs;
    } else this.hooks.frame(frame);
  }

  private onClosed(wsCode: number, wsReason: string, error: Error | undefined, refused: Refused | undefined): void {
    clearTimeout(this.timer);
    this.socket = undefined;
    if (this.over) return;
    // A close frame behind a backlog may never come: what the `closed` line said counts as well.
    const code = wsCode === 1006 && this.said ? this.said.code : wsCode;
    const reason = this.said?.reason || wsReason || error?.message || '';
    if (isFinal(code)) {
      this.end(new Closed(code, reason, error));
      return;
    }
    if (refused && refused.status >= 400 && refused.status < 500 && refused.status !== 429) {
      this.end(new Closed(refused.status === 401 ? 4401 : 4400, reason, error));
      return;
    }
    if (this.works && isPlainCut(code)) this.backoff.reset();
    if (!this.greeted || this.unfit || this.drainMs !== undefined || isSentAway(code)) {
      this.url++;
      this.turnedAway++;
    }
    const delayMs = this.afterMs ?? this.ownMs(refused) ?? this.backoff.next();
    this.timer = setTimeout(() => this.dial(), delayMs);
    this.hooks.cut(code, reason, delayMs);
  }

  /**
   * When this daemon will have a place again is of no interest while there are others to ask: the session runs on
   * meanwhile. After a round of all of them it is.
   */
  private ownMs(refused: Refused | undefined): number | undefined {
    if (this.turnedAway > 0 && this.turnedAway < this.urls.length) return undefined;
    this.turnedAway = 0;
    return this.drainMs ?? refused?.retryAfterMs;
  }
}
