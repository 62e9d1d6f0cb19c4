import type { Moment } from './clock.js';
import type { EndReason } from './errors.js';

/** Something the session owns. */
export interface Holding {
  /** `task:<id>` and the like. */
  readonly lease: string;
  readonly fence: number;
  /** Its own lease, renewed by lease.renew; undefined: it lives as long as the session. */
  readonly leaseMs: number | undefined;
  /** What the daemon promises, where it is less than the time to live of the session. */
  readonly validMs?: number;
  /** Whether it is being claimed back in this epoch, where the daemon does not know it; nothing is without this. */
  isReclaimed?(epoch: string): boolean;
  /** It is no longer surely ours; the holder has forgotten it already. */
  over(reason: EndReason): void;
}

/** What a holder knows of a holding. */
export interface Held {
  readonly holding: Holding;
  /** Send time of the last request whose answer proved it ours. For what hangs on the session: the session's. */
  provenAt: Moment;
  renewedAt: Moment;
  /** Waits for a proof before the work may begin. */
  begin: (() => void) | undefined;
  /** Since when the daemon does not know it: it has lapsed, or it was lost with the store, which the epoch tells. */
  unknownAt?: number | undefined;
}

/** An end that no proof puts off. */
export interface Term {
  readonly holding: Holding;
  readonly from: Moment;
  readonly validMs: number;
  readonly reason: EndReason;
}
