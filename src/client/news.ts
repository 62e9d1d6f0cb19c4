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
 * What the daemon says about things that are ours: granted, lost, revoked. It must find what the answer before it has
 * brought, and an answer reaches its caller some microtasks later than the next line of the same message is read: a lock
 * that is broken right behind its grant would be lost to nobody and run on. So such lines are told a turn later, in
 * their order; and behind the answer to a resume not before the holdings in it were taken in.
 */
export class News {
  private readonly keepers: Keepers;
  /** As many as the session has holdings and waits, at most. */
  private frames: Frame[] = [];
  private held = false;
  private armed = false;

  constructor(keepers: Keepers) {
    this.keepers = keepers;
  }

  tell(frame: Frame): void {
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

  private arm(): void {
    if (this.armed || this.held || this.frames.length === 0) return;
    this.armed = true;
    setImmediate(() => {
      this.armed = false;
      if (this.held) return;
      const { frames } = this;
      this.frames = [];
      for (const frame of frames) this.pass(frame);
    });
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
