import { checkedSignal } from './abort.js';
import { Ended, type EndReason } from './errors.js';
import type { Holder } from './holder.js';
import type { Holding } from './holding.js';
import type { Amounts, LimitedCall } from './limit-options.js';

type Ask = (op: string, params: Record<string, unknown>) => Promise<unknown>;

/** One reservation from its grant to its settle, or to its loss. */
export class HeldCall implements Holding, LimitedCall {
  readonly lease: string;
  readonly reservation: string;
  readonly fence: number;
  readonly leaseMs: number | undefined;
  readonly signal: AbortSignal;
  /** Resolves when it is surely ours, or over. */
  readonly begun: Promise<void>;
  /** What it took, as far as the handler has said. */
  actual: Amounts | undefined;
  /** Why it is over. */
  ended: Ended | undefined;
  private readonly name: string;
  private readonly ask: Ask;
  private readonly controller = new AbortController();
  private onBegun: () => void = () => {};

  constructor(
    name: string,
    reservation: string,
    fence: number,
    leaseMs: number | undefined,
    { holder, ask }: { holder: Holder; ask: Ask },
  ) {
    this.name = name;
    this.lease = `reservation:${reservation}`;
    this.reservation = reservation;
    this.fence = fence;
    this.leaseMs = leaseMs;
    this.ask = ask;
    this.signal = checkedSignal(this.controller, () => holder.check());
    this.begun = new Promise((resolve) => {
      this.onBegun = resolve;
    });
    holder.hold(this, () => this.onBegun());
  }

  took(actual: Amounts): void {
    this.actual = { ...this.actual, ...actual };
  }

  async penalize(afterMs: number, code?: string): Promise<void> {
    await this.ask('limit.penalize', { name: this.name, afterMs, ...(code === undefined ? {} : { code }) });
  }

  async observe(dimension: string, remaining: number, resetMs: number): Promise<void> {
    await this.ask('limit.observe', { name: this.name, dimension, remaining, resetMs });
  }

  over(reason: EndReason): void {
    if (this.ended) return;
    this.ended = new Ended(reason);
    this.controller.abort(this.ended);
    this.onBegun();
  }
}
