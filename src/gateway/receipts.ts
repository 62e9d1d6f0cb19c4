import type { Fate } from '../queue/port.js';
import { guarded } from './probes.js';

export type Settled = (fate: Fate) => void;

interface Written {
  readonly number: number;
  readonly silentAt: number;
  readonly settled: readonly Settled[];
}

/**
 * The `tasks` lines of one connection that are written and not yet proven to have arrived. A ping goes out just ahead
 * of them in the same flush, and its pong is the receipt: a handler that blocks at once has already answered, a frozen
 * process has not. A pong to number n proves every n before it, since a peer answers in order (and may skip).
 */
export class Receipts {
  readonly #receiptMs: number;
  #waiting: Written[] = [];
  /** Lines that their socket does not take yet, one each. */
  #late: Omit<Written, 'number'>[] = [];

  constructor(receiptMs: number) {
    this.#receiptMs = receiptMs;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /**
   * Lines were written behind ping `number`; or, `undefined`, they wait for a reader that has stopped, and nobody else must
   * wait for that longer than for a receipt.
   */
  wrote(number: number | undefined, settled: readonly Settled[], now: number): void {
    const silentAt = now + this.#receiptMs;
    if (number === undefined) this.#late.push({ settled, silentAt });
    else {
      if (this.#late.length > 0) this.#late = this.#late.filter((late) => !settled.includes(late.settled[0]!));
      this.#waiting.push({ number, silentAt, settled });
    }
  }

  ponged(number: number): void {
    this.#settle('received', (written) => written.number <= number);
  }

  /** Those whose time is over are silent; answers when the next one will be. */
  expire(now: number): number {
    this.#settle('silent', (written) => written.silentAt <= now);
    while (this.#late[0] && this.#late[0].silentAt <= now) {
      const [settled] = this.#late.shift()!.settled;
      guarded('the fate of a task line', () => settled!('silent'));
    }
    const never = Number.POSITIVE_INFINITY;
    return Math.min(this.#waiting[0]?.silentAt ?? never, this.#late[0]?.silentAt ?? never);
  }

  /** The socket is gone, or will be by our own doing: no pong will come any more. */
  end(fate: 'closed' | 'silent'): void {
    this.#late = []; // unwritten, as the outbox has said
    this.#settle(fate, () => true);
  }

  /** Numbers and times only rise, so what is settled is always a beginning of the list. */
  #settle(fate: Fate, ends: (written: Written) => boolean): void {
    let count = 0;
    while (count < this.#waiting.length && ends(this.#waiting[count]!)) count++;
    if (count === 0) return;
    // Taken out first: whoever hears of a fate may write again at once.
    const done = this.#waiting.splice(0, count);
    for (const { settled } of done) for (const tell of settled) guarded('the fate of a task line', () => tell(fate));
  }
}
