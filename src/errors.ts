/**
 * The catalogue of refusals: every code a client can meet, with its advice. `retry` says whether the same request
 * may succeed later without being changed. Lua scripts, commands and docs name codes from this list only
 * (test/architecture.test.ts compares them).
 */
export const errors = {
  BAD_FRAME: { retry: false, about: 'The message is not one JSON object a line, or a line is too long or too deep.' },
  BAD_REQUEST: { retry: false, about: 'The params do not fit the schema of the op; `path` names the field.' },
  UNKNOWN_OP: { retry: false, about: 'There is no op of this name.' },
  DUPLICATE_ID: { retry: false, about: 'A request with this id is still in flight on this connection.' },
  UNAUTHENTICATED: { retry: false, about: 'A valid token is needed.' },
  FORBIDDEN: { retry: false, about: 'This caller may not do this.' },
  NO_SESSION: { retry: false, about: 'The op needs a session; call session.open first.' },
  LIMIT: { retry: false, about: 'A bound of the protocol or of a setting was reached.' },
  RATE_LIMITED: { retry: true, about: 'Too many requests; wait `afterMs`.' },
  INVALID: { retry: false, about: 'Each field is right, but they contradict each other or the configuration.' },
  TOO_LARGE: { retry: false, about: 'A value has more bytes than its bound.' },
  NOT_FOUND: { retry: false, about: 'Nothing of this name or id exists.' },
  CONFLICT: { retry: false, about: 'The state of the thing, or a thing of the same id, is in the way.' },
  KEY_CONFLICT: { retry: false, about: 'The key is taken by a task with another payload.' },
  STALE_FENCE: { retry: false, about: 'This ownership has ended; `details` has your fence and the current one.' },
  NOT_OWNER: { retry: false, about: 'Only the holder may do this.' },
  SESSION_LOST: { retry: false, about: 'The session has ended; open a new one.' },
  BAD_KEY: { retry: false, about: 'The key does not belong to this session.' },
  HELD: { retry: true, about: 'Somebody else holds it; `details` says who.' },
  DEADLOCK: { retry: false, about: 'Waiting would close a circle of owners; `details` names it.' },
  NEVER_FITS: { retry: false, about: 'The request is larger than the capacity.' },
  KIND_MISMATCH: {
    retry: false,
    about: 'The name is a lock of another kind; permits need a `lock.define` with a capacity first.',
  },
  LIMITED: { retry: true, about: 'The limit is used up; wait `afterMs`.' },
  MISMATCH: { retry: false, about: 'The key was begun with another fingerprint.' },
  OVERLOADED: { retry: true, about: 'The queue is full; wait `afterMs`.' },
  DRAINING: { retry: true, about: 'This daemon is stopping; connect again.' },
  POSITION_LOST: { retry: false, about: 'The log no longer holds this position; choose another `from`.' },
  BAD_POSITION: { retry: false, about: 'The position was never valid, or does not fit the cursor.' },
  BAD_FILTER: { retry: false, about: 'A pattern or a `where` is malformed.' },
  RESERVED_TYPE: { retry: false, about: 'The first word of the type belongs to the system.' },
  NOT_DURABLE: { retry: true, about: 'The change did not reach the wanted durability.' },
  UNAVAILABLE: { retry: true, about: 'Redis is away, busy or full; try again.' },
  TIMEOUT: { retry: true, about: 'No answer in time; the request may have been carried out.' },
  INTERNAL: { retry: true, about: 'A fault of the daemon; `details.ref` finds it in its log.' },
} as const satisfies Record<string, { retry: boolean; about: string }>;

export type ErrorCode = keyof typeof errors;

/** An error as it stands on the wire. */
export interface WireError {
  code: ErrorCode;
  message: string;
  retry: boolean;
  path?: string;
  afterMs?: number;
  details?: Record<string, unknown>;
}

/** A typed refusal: what a command throws and what a client receives. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: ErrorCode;
  readonly path: string | undefined;
  readonly afterMs: number | undefined;
  readonly details: Record<string, unknown> | undefined;

  constructor(
    code: ErrorCode,
    message: string = errors[code].about,
    extra: {
      path?: string | undefined;
      afterMs?: number | undefined;
      details?: Record<string, unknown> | undefined;
    } = {},
  ) {
    super(message);
    this.code = code;
    this.path = extra.path;
    this.afterMs = extra.afterMs;
    this.details = extra.details;
  }

  get retry(): boolean {
    return errors[this.code].retry;
  }

  toWire(): WireError {
    return {
      code: this.code,
      message: this.message,
      retry: this.retry,
      ...(this.path === undefined ? {} : { path: this.path }),
      ...(this.afterMs === undefined ? {} : { afterMs: this.afterMs }),
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errors, code);
}
