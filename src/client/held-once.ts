import { checkedSignal } from './abort.js';
import { Ended, type EndReason } from './errors.js';
import type { Holder } from './holder.js';
import type { Holding } from './holding.js';
import type { OnceCall } from './once-options.js';

/** A key from its begin to its end, whoever brings that about. */
export class HeldOnce implements Holding, OnceCall {
  readonly lease: string;
  readonly key: string;
  readonly fence: number;
  readonly attempts: number;
  readonly leaseMs: number;
  readonly signal: AbortSignal;
  /** Why it is over. */
  ended: Ended | undefined;
  private readonly holder: Holder;
  private readonly controller = new AbortController();
  private onBegun: () => void = () => {};

  constructor(key: string, { fence, attempts }: { fence: number; attempts: number }, leaseMs: number, holder: Holder) {
    this.lease = `once:${key}`;
    this.key = key;
    this.fence = fence;
    this.attempts = attempts;
    this.leaseMs = leaseMs;
    this.holder = holder;
    this.signal = checkedSignal(this.controller, () => holder.check());
  }

  /** Resolves when it is surely ours, or over. */
  begin(): Promise<void> {
    return new Promise((resolve) => {
      this.onBegun = resolve;
      this.holder.hold(this, resolve);
    });
  }

  over(reason: EndReason): void {
    if (this.ended) return;
    this.ended = new Ended(reason);
    this.controller.abort(this.ended);
    this.onBegun();
  }

  /** Its caller wants it to stop; it is still ours, and how it ended is still reported. */
  cancel(reason: unknown): void {
    if (!this.ended) this.controller.abort(reason);
  }

  drop(): void {
    this.holder.drop(this);
  }
}
