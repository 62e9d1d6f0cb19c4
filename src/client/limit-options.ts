/** How much of each dimension a call takes: `{ requests: 1, outputTokens: 4000, concurrency: 1 }`. */
export type Amounts = Readonly<Record<string, number>>;

export interface LimitOptions {
  /** How long to wait in the queue for it; 60 s by default, 0 not at all. */
  waitMs?: number;
  /** Its own lease, renewed while the handler runs; without it the reservation lives as long as the session. */
  leaseMs?: number;
  /** Beside other agents that wait: twice the weight, twice the share. */
  weight?: number;
  /** Ends the waiting; a handler that runs is told by `call.signal`. */
  signal?: AbortSignal;
}

/** What a handler may spend. */
export interface LimitedCall {
  readonly reservation: string;
  readonly fence: number;
  /** Aborts with an `Ended` as reason when the reservation is no longer surely ours: its concurrency may be another's. */
  readonly signal: AbortSignal;
  /** What the call really took, once it is known; told when the handler ends. Left out, it took what was reserved. */
  took(actual: Amounts): void;
  /** The provider said to slow down: everybody stops for so long. */
  penalize(afterMs: number, code?: string): Promise<void>;
  /** What the provider said it has left. */
  observe(dimension: string, remaining: number, resetMs: number): Promise<void>;
}

export type LimitHandler<R> = (call: LimitedCall) => Promise<R> | R;

export interface LimitCall {
  <R>(name: string, cost: Amounts, handler: LimitHandler<R>): Promise<R>;
  <R>(name: string, cost: Amounts, options: LimitOptions, handler: LimitHandler<R>): Promise<R>;
}
