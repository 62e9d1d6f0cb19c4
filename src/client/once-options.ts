import { createHash } from 'node:crypto';
import { Defer, Fail } from './errors.js';

/** What a failed attempt means for the next one. */
export type OnceOutcome = 'final' | 'retryable' | 'unknown';

/** A key that is ours to act under. */
export interface OnceCall {
  readonly key: string;
  /** Rises with every hand-over of the key: a guarded side refuses a lower one. */
  readonly fence: number;
  /** How often the key was handed over, this time included. */
  readonly attempts: number;
  /** Aborts with an `Ended` as reason when the key is no longer surely ours: what was done is then unknown to others. */
  readonly signal: AbortSignal;
}

export type OnceHandler<R> = (call: OnceCall) => Promise<R> | R;

export interface OnceOptions<R = unknown> {
  /** How long the key stays ours without a sign of us; renewed while the handler runs. 60 s. */
  leaseMs?: number;
  /** How long the result, or that nobody knows it, is remembered. 24 h: afterwards the key is new again. */
  keepMs?: number;
  /** How long to wait for somebody else who is at it; 0 (the default) is refused with HELD. */
  waitMs?: number;
  /**
   * The one before us ended without a word: find out what it did and return its result, or call `run` if it did nothing.
   * Without it such a key is refused with `OnceUnknown` and stays unknown.
   */
  onUnknown?: (call: OnceCall, run: () => Promise<R>) => Promise<R> | R;
  /**
   * What an error of the handler means. By default `Fail` is final (with `retry` or `afterMs`: retryable), `Defer` is
   * retryable, and any other error leaves it unknown: it may have come after the act.
   */
  onError?: (error: unknown) => OnceOutcome;
  /** Ends the waiting; a handler that runs is told by `call.signal`. */
  signal?: AbortSignal;
}

export interface OnceFace {
  <R>(key: string, payload: unknown, handler: OnceHandler<R>): Promise<R>;
  <R>(key: string, payload: unknown, options: OnceOptions<R>, handler: OnceHandler<R>): Promise<R>;
}

/** Somebody began under this key and ended without a word. Whether the effect happened has to be found out. */
export class OnceUnknown extends Error {
  override readonly name = 'OnceUnknown';
  readonly key: string;
  readonly attempts: number;
  constructor(key: string, attempts: number) {
    super(`nobody knows what the last call under ${key} did; find out (onUnknown) before it is done again`);
    this.key = key;
    this.attempts = attempts;
  }
}

export function outcomeOf(error: unknown): OnceOutcome {
  if (error instanceof Defer) return 'retryable';
  if (!(error instanceof Fail)) return 'unknown';
  return error.options.retry || error.options.afterMs !== undefined ? 'retryable' : 'final';
}

/** The same payload has the same fingerprint, in whatever order its members stand. */
export function fingerprintOf(payload: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(payload, sorted) ?? 'undefined')
    .digest('base64url');
}

function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
