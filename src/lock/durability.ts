import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './durability.lua');
/** Nobody switches persistence often. */
const knownForMs = 10_000;

/**
 * What a grant survives: `aof`, a restart of Redis (but for what was not yet forced to disk); `memory`, nothing. It is
 * known before a grant is told, and never asked for then: what the log says next of that grant would be told ahead of it.
 */
export class Durability {
  /** As far as it is known; nothing is promised that is not. */
  word: 'aof' | 'memory' = 'memory';
  readonly #namespace: Namespace;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(namespace: Namespace) {
    this.#namespace = namespace;
  }

  /** By the clock: asks Redis again once the answer is old. Never rejects. */
  async look(): Promise<void> {
    const now = performance.now();
    if (now - this.#askedAt < knownForMs) return;
    this.#askedAt = now;
    try {
      this.word = (await this.#namespace.read<string>(script)) === '1' ? 'aof' : 'memory';
    } catch {
      this.word = 'memory';
      this.#askedAt = Number.NEGATIVE_INFINITY;
    }
  }
}
