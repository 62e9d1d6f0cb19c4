import { Refusal } from '../errors.js';
import { bounds } from './bounds.js';

/** The requests of one connection that wait for their answer, and the bad frames it has sent. */
export class Requests {
  readonly #inFlight = new Map<number, number>();
  #bytes = 0;
  #strikes: number[] = [];

  /** True when what is in flight should be answered before more is read. */
  get full(): boolean {
    return this.#bytes > bounds.requestBytesMax;
  }

  /** Throws if the id is taken or too many are in flight. */
  begin(id: number, bytes: number): void {
    if (this.#inFlight.has(id)) throw new Refusal('DUPLICATE_ID');
    if (this.#inFlight.size >= bounds.requestsMax) {
      throw new Refusal('LIMIT', 'too many requests in flight', { details: { max: bounds.requestsMax } });
    }
    this.#inFlight.set(id, bytes);
    this.#bytes += bytes;
  }

  /** False if it was answered before. */
  end(id: number): boolean {
    const bytes = this.#inFlight.get(id);
    if (bytes === undefined) return false;
    this.#bytes -= bytes;
    return this.#inFlight.delete(id);
  }

  /** Counts a bad frame; true if that was one too many. */
  strike(now: number): boolean {
    this.#strikes = this.#strikes.filter((at) => now - at < bounds.strikeWindowMs);
    return this.#strikes.push(now) >= bounds.strikesMax;
  }
}
