import { checkedSignal } from './abort.js';
import type { Moment } from './clock.js';
import { Ended, type EndReason } from './errors.js';
import type { Holder } from './holder.js';
import type { Holding, Term } from './holding.js';

/** What a grant says, in a reply or in a push. */
export interface HeldFrame {
  readonly fence: number;
  readonly validMs: number;
  readonly maxHoldMs?: number;
  readonly epoch: string;
}

/** One lock from its grant to its end, whoever brings that about. */
export class HeldLock implements Holding {
  readonly lease: string;
  readonly grant: string;
  /** Of the request that took it: it is claimed back with the same words. */
  readonly params: Record<string, unknown>;
  readonly leaseMs: number | undefined;
  validMs: number;
  epoch: string;
  fence: number;
  reclaiming: string | undefined;
  /** Why it is over. */
  ended: Ended | undefined;
  /** Its own caller asked for the end: the handler may finish what it does. */
  asked = false;
  isOrphan = false;
  /** It is surely ours, or over. */
  hasBegun = false;
  /** A session that ended later took it along. Once it is claimed back nobody knows under which one it may be held. */
  claimedAt: number;
  private readonly holder: Holder;
  // Few handlers look at the signal: it is made when it is asked for.
  private controller: AbortController | undefined;
  private longest: Term | undefined;
  private orphaned: Term | undefined;
  private wake: () => void = () => {};
  /** The session proved it last, as far as this lock knows: counts once the session is gone. */
  private provenAt: Moment;

  constructor(
    grant: string,
    params: Record<string, unknown>,
    leaseMs: number | undefined,
    { fence, validMs, maxHoldMs, epoch }: HeldFrame,
    at: Moment,
    holder: Holder,
  ) {
    this.lease = `lock:${grant}`;
    this.grant = grant;
    this.params = params;
    this.leaseMs = leaseMs;
    this.fence = fence;
    this.validMs = validMs;
    this.epoch = epoch;
    this.provenAt = at;
    this.claimedAt = at.mono;
    this.holder = holder;
    if (maxHoldMs !== undefined) this.longest = holder.end(this, at, maxHoldMs, 'maxHold');
  }

  get signal(): AbortSignal {
    if (this.controller) return this.controller.signal;
    this.controller = new AbortController();
    if (this.ended) this.controller.abort(this.ended);
    return checkedSignal(this.controller, () => this.holder.check());
  }

  begin(): void {
    this.holder.hold(this, this.onBegun);
  }

  /** Resolves with `hasBegun`. */
  begun(): Promise<void> {
    if (this.hasBegun) return Promise.resolve();
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }

  over(reason: EndReason, asked = false): void {
    if (this.ended) return;
    this.ended = new Ended(reason);
    this.asked = asked;
    if (!asked) this.drop();
    this.controller?.abort(this.ended);
    this.onBegun();
  }

  /** The session it hung on has ended: nothing renews it, and only a reclaim can save it. */
  orphan(): void {
    if (this.isOrphan || this.ended) return;
    this.isOrphan = true;
    const { holder } = this;
    const provenAt = holder.provenFor(this) ?? this.provenAt;
    holder.drop(this);
    this.orphaned = holder.end(this, provenAt, holder.validFor(this), 'sessionLost');
  }

  isReclaimed(epoch: string): boolean {
    return this.epoch !== epoch;
  }

  reclaimed({ fence, validMs, epoch }: HeldFrame, at: Moment): void {
    if (this.ended) return;
    [this.fence, this.validMs, this.epoch, this.provenAt] = [fence, validMs, epoch, at];
    if (!this.isOrphan) {
      this.holder.given(this, at);
      return;
    }
    this.isOrphan = false;
    this.holder.forget(this.orphaned);
    // Its handler may have waited for a proof of the session that is gone.
    this.holder.hold(this, () => this.onBegun());
  }

  /** Nothing of it is kept here any more. */
  drop(): void {
    this.holder.drop(this);
    this.holder.forget(this.longest);
    this.holder.forget(this.orphaned);
  }

  private readonly onBegun = (): void => {
    this.hasBegun = true;
    this.wake();
  };
}
