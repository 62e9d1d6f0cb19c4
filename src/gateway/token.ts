import { createHash, timingSafeEqual } from 'node:crypto';

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The one static token of the daemon, or none. Compared by digest, in constant time, whatever its length. */
export class TokenCheck {
  readonly #digest: Buffer | undefined;

  constructor(token: string | undefined) {
    this.#digest = token === undefined ? undefined : digest(token);
  }

  get required(): boolean {
    return this.#digest !== undefined;
  }

  accepts(token: string): boolean {
    return this.#digest === undefined || timingSafeEqual(this.#digest, digest(token));
  }
}
