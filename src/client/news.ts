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

/**
 * What the daemon says about things that are ours (granted, lost, revoked), in step with its answers. A line must find
 * what the answer before it has brought, and an answer reaches its caller some microtasks after the next line of the same
 * message is read: a lock that is broken right behind its grant would be lost to nobody and run on. So such a line behind
 * an answer is told a turn later, and answers behind it wait for it; and behind the answer to a resume it is not told
 * before the holdings in that were taken in.
 */
export class News {
  private readonly keepers: Keepers;
  private readonly settle: (answer: Frame) => void;
  /** Lines in their order. As many as the session has holdings, waits and requests, at most. */
  private frames: Frame[] = [];
  private held = false;
  /** An answer of this turn may still be on its way to its caller. */
  private answered = false;
  private armed = false;

  constructor(keepers: Keepers, settle: (answer: Frame) => void) {
    this.keepers = keepers;
    this.settle = settle;
  }

  tell(frame: Frame): void {
    if (!this.held && !this.answered && this.frames.length === 0) this.pass(frame);
    else {
      this.frames.push(frame);
      this.arm();
    }
  }

  answer(frame: Frame): void {
    // While a session opens, the answers are what it waits for.
    if (!this.held && this.frames.length > 0) this.frames.push(frame);
    else this.take(frame);
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

  private take(answer: Frame): void {
    this.answered = true;
    this.arm();
    this.settle(answer);
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
    let at = 0;
    for (; at < this.frames.length && !this.held; at++) {
      const frame = this.frames[at]!;
      if (frame.id !== undefined) this.take(frame);
      else if (this.answered) break;
      else this.pass(frame);
    }
    this.frames.splice(0, at);
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
