/**
 * The longest time to live of the sessions that were kept here and may still be sure of what they hold: one that was heard
 * last at some moment is so for its ttl from there, whatever has become of its socket, and of the store.
 */
export class LongestTtl {
  /** By ttl: until when a session with it is sure. */
  readonly #until = new Map<number, number>();
  #longest = 0;

  get ms(): number {
    return this.#longest;
  }

  saw(ttlMs: number, now: number): void {
    this.#until.set(ttlMs, now + ttlMs);
    this.#longest = Math.max(this.#longest, ttlMs);
  }

  /** By the clock: those whose time is over are left out. */
  forget(now: number): void {
    this.#longest = 0;
    for (const [ttlMs, until] of this.#until) {
      if (until <= now) this.#until.delete(ttlMs);
      else this.#longest = Math.max(this.#longest, ttlMs);
    }
  }
}
