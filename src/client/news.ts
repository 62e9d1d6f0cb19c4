import type { Crew } from './crew.js';
import type { EndReason } from './errors.js';
import type { Limits } from './limit.js';
import type { Locks } from './lock.js';
import type { Onces } from './once.js';
import type { Frame } from './socket.js';

/** Who keeps what is ours. */
export interface Keepers {
  readonly crew: Crew;
  readonly locks: Locks;
  readonly limits: Limits;
  readonly onces: Onces;
  sessionLost(session: string): void;
}

interface Lost {
  readonly kind: string;
  readonly name: string;
  readonly grant?: string;
  readonly reservation?: string;
  readonly fence?: number;
  readonly reason: EndReason;
}

/** What has become of something that is ours, or that we wait for. */
const news = new Set<unknown>(['revoked', 'cancel', 'granted', 'waitEnded', 'lost']);

/**
 * Reads lines in their order. News (granted, lost, revoked) must find what the answer before it has brought, and an answer
 * reaches its caller some microtasks after the next line of the same message is read: a lock that is broken right behind
 * its grant would be lost to nobody and run on. So news behind an answer, or behind a grant that somebody has waited for,
 * waits for the next turn, and everything behind it waits too; and behind the answer to a resume it waits until the
 * holdings in that were taken in.
 */
export class News {
  private readonly keepers: Keepers;
  private readonly others: (frame: Frame) => void;
  /** Of one turn; while a session opens, as many as it has holdings and waits. */
  private frames: Frame[] = [];
  private held = false;
  /** An answer or a grant of this turn may still be on its way to its caller. */
  private answered = false;
  private armed = false;

  constructor(keepers: Keepers, others: (frame: Frame) => void) {
    this.keepers = keepers;
    this.others = others;
  }

  read(frame: Frame): void {
    const isNews = news.has(frame.op);
    const waits = this.held ? isNews : this.frames.length > 0 || (isNews && this.answered);
    if (!waits) {
      this.take(frame, isNews);
      return;
    }
    this.frames.push(frame);
    this.arm();
  }

  hold(): void {
    this.held = true;
  }

  goOn(): void {
    this.held = false;
    this.arm();
  }

  clear(): void {
    this.frames = [];
  }

  private take(frame: Frame, isNews: boolean): void {
    if (frame.id !== undefined || frame.op === 'granted') {
      this.answered = true;
      this.arm();
    }
    if (isNews) this.pass(frame);
    else this.others(frame);
  }

  private arm(): void {
    if (this.armed) return;
    this.armed = true;
    setImmediate(() => {
      this.armed = false;
      this.answered = false;
      this.drain();
    });
  }

  private drain(): void {
    while (this.frames.length > 0) {
      // While a session opens only news waits: the answers are what it opens by.
      const at = this.held ? this.frames.findIndex(({ op }) => !news.has(op)) : 0;
      const frame = this.frames[at];
      if (!frame || (!this.held && this.answered && news.has(frame.op))) return;
      this.frames.splice(at, 1);
      this.take(frame, news.has(frame.op));
    }
  }

  private pass(frame: Frame): void {
    const { crew, locks, limits } = this.keepers;
    if (frame.op === 'revoked') crew.revoked(frame);
    if (frame.op === 'cancel') crew.cancel(frame);
    if (frame.op === 'granted' && frame.grant !== undefined) locks.granted(frame);
    if (frame.op === 'granted' && frame.reservation !== undefined) limits.granted(frame);
    if (frame.op === 'waitEnded' && frame.grant !== undefined) locks.waitEnded(frame);
    if (frame.op === 'waitEnded' && frame.reservation !== undefined) limits.waitEnded(frame);
    if (frame.op === 'lost') this.lost(frame as unknown as Lost);
  }

  private lost(lost: Lost): void {
    const { crew, locks, limits, onces, sessionLost } = this.keepers;
    const { kind, name, fence, reason } = lost;
    if (kind === 'lock') locks.lost(lost);
    if (kind === 'reservation') limits.lost(lost);
    if (kind === 'once') onces.lost(lost);
    if (kind === 'session') sessionLost(name);
    if (kind === 'task') crew.revoked({ tasks: [{ task: name, fence, reason }] });
  }
}
