import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './memory.lua');

/** Shares of Redis' `maxmemory`: from the first the log is trimmed, from the second nothing is admitted, up to the third. */
const trimFrom = 0.8;
const stopFrom = 0.9;
const goOnBelow = 0.87;
/** The log keeps at least its last so many bytes: whoever is nearly up to date goes on without a gap. */
const logBytesMin = 256 * 1024;
/** What is stored takes about this many times the bytes that `puts` was told of. */
const grows = 2;

/**
 * How near Redis is to its memory limit, as measured once a sweep and reckoned forward with what was put in since: a
 * burst between two sweeps must not run through the reserve that completions and renewals need.
 */
export class Memory {
  readonly #namespace: Namespace;
  #used = 0;
  #max = 0;
  #put = 0;
  #short = false;

  constructor(namespace: Namespace) {
    this.#namespace = namespace;
  }

  /** True while nothing may be admitted. */
  get short(): boolean {
    if (this.#max === 0) return false;
    const share = (this.#used + this.#put * grows) / this.#max;
    this.#short = share >= (this.#short ? goOnBelow : stopFrom);
    return this.#short;
  }

  /** So many bytes of tasks, grants or reservations are on their way to Redis. */
  puts(bytes: number): void {
    this.#put += bytes;
  }

  /** Measures; answers to how many bytes the log should shrink, or undefined. */
  async measure(): Promise<number | undefined> {
    const put = this.#put;
    const [used, max, log] = (await this.#namespace.read<string[]>(script)).map(Number) as [number, number, number];
    this.#put -= put;
    this.#used = used;
    this.#max = max;
    if (max === 0 || used < trimFrom * max) return undefined;
    const keep = Math.max(logBytesMin, log - (used - trimFrom * max));
    return keep < log ? keep : undefined;
  }
}
