import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import { itemRefusal } from '../protocol/batch.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { durabilityOf } from './durability.js';
import { Grants, type NewsRow, type Sessions } from './grants.js';

const script = lua(import.meta.url, './acquire.lua');

/** One lock of a request: word x, s, p, or d where neither mode nor permits was said. */
export interface AskedLock {
  readonly name: string;
  readonly node: string;
  readonly word: 'x' | 's' | 'p' | 'd';
  readonly permits: number;
}

export interface Ask {
  readonly grant: string;
  readonly owner: string | undefined;
  readonly waitMs: number;
  readonly leaseMs: number | undefined;
  readonly maxHoldMs: number | undefined;
  readonly reason: string | undefined;
  readonly release: boolean;
  readonly reclaim: number | undefined;
  readonly locks: readonly AskedLock[];
}

type Item = readonly (string | number)[];
/** What Lua says of one item, and the epoch it said it in. */
interface Said {
  readonly words: readonly string[];
  readonly epoch: string;
}

export type Acquired =
  | { readonly state: 'held'; fence: number; validMs: number; maxHoldMs?: number; epoch: string; durability: string }
  | { readonly state: 'waiting'; place: number; held: Record<string, unknown> };

const overflow = (): Error => new Refusal('UNAVAILABLE', 'too many requests wait for Redis', { afterMs: 200 });

/**
 * Acquires and releases of all connections of a namespace: what arrives in one turn of the event loop is one script, in
 * the order in which it came. Who releases and acquires in one breath is served in that order.
 */
export class LockJoins {
  readonly #namespace: Namespace;
  readonly #joiner: Joiner<Item, Said>;
  /** A queue was too long for one script: the sweep goes on with it. */
  readonly goOn: () => void;
  readonly grants: Grants;

  constructor(namespace: Namespace, sessions: Sessions, goOn: () => void) {
    this.#namespace = namespace;
    this.grants = new Grants(sessions, () => durabilityOf(namespace));
    this.goOn = goOn;
    this.#joiner = new Joiner((items) => this.#run(items), {
      itemsMax: 50,
      callsMax: 2,
      waitingMax: 20_000,
      overflow,
    });
  }

  async acquire({ id, binding }: SessionRef, ask: Ask): Promise<Acquired> {
    const { grant, owner, waitMs, leaseMs, maxHoldMs, reason, release, reclaim, locks } = ask;
    const head = ['a', id, binding, grant, owner ?? '', waitMs, leaseMs ?? '', maxHoldMs ?? '', reason ?? ''];
    const rows = locks.flatMap(({ name, node, word, permits }) => [name, node, word, permits]);
    const item = [...head, release ? 1 : 0, reclaim ?? '', locks.length, ...rows];
    const [[said], durability] = await Promise.all([this.#joiner.add([item]), durabilityOf(this.#namespace)]);
    const [state, first, validMs, maxHold] = said!.words;
    if (state!.startsWith('!')) throw itemRefusal(state!);
    if (state === 'waiting') {
      const { place, ...held } = JSON.parse(first!) as { place: number };
      return { state, place, held };
    }
    const holds = maxHold === '' ? {} : { maxHoldMs: Number(maxHold) };
    return { state: 'held', fence: Number(first), validMs: Number(validMs), ...holds, epoch: said!.epoch, durability };
  }

  async release({ id, binding }: SessionRef, grant: string): Promise<string> {
    const [said] = await this.#joiner.add([['r', id, binding, grant]]);
    return said!.words[0]!;
  }

  /** Resolves when nothing of anybody is on its way to Redis. */
  idle(): Promise<void> {
    return this.#joiner.idle();
  }

  async #run(items: readonly Item[]): Promise<Said[]> {
    const news = this.grants.begin();
    try {
      const reply = await this.#namespace.call<[string[][], string, number, NewsRow[]]>(script, items.flat());
      const [results, epoch, left, rows] = reply;
      news(rows, epoch);
      if (left === 1) this.goOn();
      return results.map((words) => ({ words, epoch }));
    } catch (error) {
      news([], '');
      throw error;
    }
  }
}
