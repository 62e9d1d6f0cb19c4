import { Refusal } from '../errors.js';

type Send = () => Promise<void>;

interface Owed {
  readonly send: Send;
  tries: number;
  isAsked: boolean;
  timer: NodeJS.Timeout | undefined;
}

/** After these nobody knows what was done. */
const unsure = new Set(['TIMEOUT', 'INTERNAL']);
/** These say nothing of what was asked for; it is worth asking again. */
const passing = new Set([...unsure, 'UNAVAILABLE', 'DRAINING', 'RATE_LIMITED', 'LIMIT']);
const againMs = 200;
const againMaxMs = 5000;
/** So many lost answers at once are no accident; one more is tried once, and else ends with its session. */
const owedMax = 10_000;

/** A request that failed like this may have been carried out: what it asked for may be ours. */
export function mayBeOurs(error: unknown): boolean {
  if (!(error instanceof Refusal)) return false;
  const { sent = true, again = false } = (error.details ?? {}) as { sent?: boolean; again?: boolean };
  // `sent: false`: it waited for a connection all the time. `again`: what was refused is the second of two.
  return sent && (unsure.has(error.code) || (again && error.code === 'UNAVAILABLE'));
}

/**
 * What we have given up and the daemon has not yet taken back: it is told until it answers, or until the session ends and
 * takes it along. Without that, a lost answer would leave a grant that nobody knows of to a session that lives on.
 */
export class GiveBacks {
  private readonly owed = new Map<string, Owed>();

  /** Fails if the first try does; it is tried again all the same. */
  give(id: string, send: Send): Promise<void> {
    if (this.owed.size >= owedMax && !this.owed.has(id)) return send();
    const owed = { send, tries: 0, isAsked: false, timer: undefined };
    this.forget(id);
    this.owed.set(id, owed);
    return this.ask(id, owed);
  }

  /** We hear of it although we have given it up: at once. */
  again(id: string): void {
    const owed = this.owed.get(id);
    if (owed) void this.ask(id, owed).catch(() => {});
  }

  /** A session is open on another socket. */
  allAgain(): void {
    for (const id of this.owed.keys()) this.again(id);
  }

  /** The session has ended, and everything with it. */
  clear(): void {
    for (const id of [...this.owed.keys()]) this.forget(id);
  }

  private async ask(id: string, owed: Owed): Promise<void> {
    if (owed.isAsked) return;
    owed.isAsked = true;
    clearTimeout(owed.timer);
    try {
      await owed.send();
      if (this.owed.get(id) === owed) this.forget(id);
    } catch (error) {
      owed.isAsked = false;
      if (this.owed.get(id) === owed) this.later(id, owed, error);
      throw error;
    }
  }

  private later(id: string, owed: Owed, error: unknown): void {
    if (!(error instanceof Refusal) || !passing.has(error.code)) {
      this.forget(id);
      return;
    }
    const delayMs = Math.min(againMaxMs, againMs * 2 ** Math.min(owed.tries++, 10)) * (0.5 + Math.random() / 2);
    owed.timer = setTimeout(() => this.again(id), delayMs);
    owed.timer.unref();
  }

  private forget(id: string): void {
    clearTimeout(this.owed.get(id)?.timer);
    this.owed.delete(id);
  }
}
