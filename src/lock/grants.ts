import { pushLine } from '../protocol/frame.js';

/** A wait that has become a grant. */
export interface Granted {
  readonly session: string;
  readonly grant: string;
  readonly fence: number;
  readonly validMs: number;
  readonly maxHoldMs?: number;
  readonly epoch: string;
}

/** Where a line for a session goes, if it has a socket here. */
export interface Sessions {
  bySession(session: string): unknown;
  push(session: string, line: string): boolean;
}

/** `lock.news` of redis/lua/lock-grant.lua: session, grant, fence, validMs, maxHoldMs or ''. */
export type NewsRow = readonly [string, string, string, string, string];

/** Told from replies and not yet read in the log; a reader that is further behind is waited for. */
const toldMax = 100_000;
/** Read while a call was on its way: only a prompt reply asks for them, and no log grows by so many in its time. */
const readMax = 10_000;
/**
 * A reply that took longer says what may be over by now, and the end of it stands in the log: both are told from there, in
 * their order. Less than the margin that a holder keeps to the end of a longest hold, which it counts from the telling.
 */
const promptMs = 20;

/**
 * Who waited on a socket of this daemon hears of the grant from the reply of the very script that made it, a read of the
 * log earlier than by the log. The log says it again, and alone where the script was another daemon's, a sweep's, or its
 * reply was lost. Whichever comes first tells, once: the fence, which no other grant has, says what was told.
 */
export class Grants {
  readonly #sessions: Sessions;
  readonly #durability: () => string;
  /** Told from a reply: to which socket. A session that has come back on another one hears it there, from the log. */
  readonly #told = new Map<number, unknown>();
  /** Told from the log while the reply that says the same may be on its way. */
  readonly #read = new Set<number>();
  #calls = 0;

  constructor(sessions: Sessions, durability: () => string) {
    this.#sessions = sessions;
    this.#durability = durability;
  }

  /** A script begins that may grant; to be called with what came of it, nothing if its reply was lost. */
  begin(): (rows: readonly NewsRow[], epoch: string) => void {
    this.#calls++;
    const startedAt = performance.now();
    return (rows, epoch) => {
      if (rows.length === 0) this.#end();
      else {
        // Behind the answers of the same script, which are written by microtasks: nobody hears of a grant before the
        // answer that told it to wait.
        process.nextTick(() => {
          const isPrompt = performance.now() - startedAt <= promptMs;
          if (isPrompt) for (const row of rows) this.#fromReply(grantedOf(row, epoch));
          this.#end();
        });
      }
    };
  }

  fromLog(granted: Granted): void {
    const { session, fence } = granted;
    const socket = this.#sessions.bySession(session);
    const told = this.#told.get(fence);
    // Fences rise along the log: what is older than this one was skipped by a gap.
    for (const older of this.#told.keys()) {
      if (older > fence) break;
      this.#told.delete(older);
    }
    // Also where nobody is told: a session that comes back before a late reply has heard how things stand by then.
    if (this.#calls > 0) this.#remember(fence);
    if (socket !== undefined && told !== socket) this.#push(granted);
  }

  /** Under load there is always a call on its way, so the oldest have to go by themselves. */
  #remember(fence: number): void {
    this.#read.add(fence);
    if (this.#read.size > readMax) for (const oldest of this.#read) return void this.#read.delete(oldest);
  }

  #fromReply(granted: Granted): void {
    const { session, fence } = granted;
    const socket = this.#sessions.bySession(session);
    if (this.#read.delete(fence) || socket === undefined || this.#told.size >= toldMax) return;
    this.#told.set(fence, socket);
    this.#push(granted);
  }

  #end(): void {
    this.#calls--;
    if (this.#calls === 0) this.#read.clear();
  }

  #push({ session, ...granted }: Granted): void {
    // At once: the log is read in one go, and the loss of this grant may be its next line.
    this.#sessions.push(session, pushLine('granted', { ...granted, state: 'held', durability: this.#durability() }));
  }
}

function grantedOf([session, grant, fence, validMs, maxHoldMs]: NewsRow, epoch: string): Granted {
  const holds = maxHoldMs === '' ? {} : { maxHoldMs: Number(maxHoldMs) };
  return { session, grant, fence: Number(fence), validMs: Number(validMs), ...holds, epoch };
}
