import { isErrorCode, Refusal, type WireError } from '../errors.js';

/** Why a task is no longer ours: the server's words, and those the client finds out by itself. */
export type EndReason =
  | 'cancelled'
  | 'deadline'
  | 'timedOut'
  | 'revoked'
  | 'leaseLapsed'
  | 'sessionLost'
  /** Not heard for so long that somebody else may hold it (the holder's rule). */
  | 'cannotRenew'
  /** The daemon answered that another fence is current. */
  | 'staleFence'
  /** The graceful stop ran into its limit. */
  | 'drained'
  /** The connection was ended for good. */
  | 'closed'
  | (string & {});

/** What `signal.reason` is when a handler is told to stop. */
export class Ended extends Error {
  override readonly name = 'Ended';
  readonly reason: EndReason;
  constructor(reason: EndReason) {
    super(`the work has ended: ${reason}`);
    this.reason = reason;
  }
}

/** The connection ended for good: closed by us, or by the daemon with a code that says not to come back. */
export class Closed extends Error {
  override readonly name = 'Closed';
  readonly code: number;
  readonly reason: string;
  constructor(code: number, reason: string, cause?: unknown) {
    super(`the connection is closed: ${code} ${reason}`.trimEnd(), cause === undefined ? undefined : { cause });
    this.code = code;
    this.reason = reason;
  }
}

export interface DeferOptions {
  /** Not handed out again before this. */
  afterMs?: number;
  reason?: string;
  /** Comes back as `task.saved` with the next attempt. */
  saved?: unknown;
}

/** Thrown by a handler: hand the task back, the attempt is refunded. */
export class Defer extends Error {
  override readonly name = 'Defer';
  readonly options: DeferOptions;
  constructor(options: DeferOptions = {}) {
    super(options.reason ?? 'deferred');
    this.options = options;
  }
}

export interface FailOptions {
  code?: string;
  data?: unknown;
  /** False by default: who throws `Fail` knows that another try would end the same way. */
  retry?: boolean;
  /** Not tried again before this; implies `retry`. */
  afterMs?: number;
}

/** Thrown by a handler: fail the task with these words. Any other error fails it and is tried again. */
export class Fail extends Error {
  override readonly name = 'Fail';
  readonly options: FailOptions;
  constructor(message: string, options: FailOptions = {}) {
    super(message);
    this.options = options;
  }
}

/**
 * The refusal as the daemon sent it. A code of a newer daemon is INTERNAL here, and `details.code` has its name.
 * `again`: it was sent a second time after a cut, and the first may have been carried out whatever is said of the second.
 */
export function refusalOf(error: WireError, again = false): Refusal {
  const { code, message, path, afterMs } = error;
  const details = again ? { ...error.details, again } : error.details;
  if (isErrorCode(code)) return new Refusal(code, message, { path, afterMs, details });
  return new Refusal('INTERNAL', message, { path, afterMs, details: { ...details, code } });
}

export function timedOut(op: string, sent: boolean): Refusal {
  const message = sent ? `${op} was not answered in time; it may have happened` : `${op} could not be sent in time`;
  return new Refusal('TIMEOUT', message, { details: { op, sent } });
}
