import type { MemoryPort, SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import { itemRefusal } from '../protocol/batch.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { Durability } from './durability.js';
import { Grants, type NewsRow, type Sessions } from './grants.js';
import { isPath } from './path.js';

const script = lua(import.meta.url, './acquire.lua', ['waitersMax', 'memoryShort']);

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

interface Item {
  /** Its values as acquire.lua reads them. */
  readonly text: string;
  /** What it costs a script: a path counts for each directory above it. */
  readonly nodes: number;
  /** What it brings to Redis, roughly. */
  readonly bytes: number;
}
/** What Lua says of one item, and the epoch it said it in. */
interface Said {
  readonly words: readonly string[];
  readonly epoch: string;
}

export type Acquired =
  | { readonly state: 'held'; fence: number; validMs: number; maxHoldMs?: number; epoch: string; durability: string }
  | { readonly state: 'waiting'; place: number; held: Record<string, unknown> };

/** About what a grant, or a wait for one, takes in Redis at each of its nodes beside its text, as Memory counts. */
const nodeBytes = 400;

/** So many nodes a script: Redis serves nobody else meanwhile. */
const nodesMax = 500;

const overflow = (): Error => new Refusal('UNAVAILABLE', 'too many requests wait for Redis', { afterMs: 200 });

/**
 * Acquires and releases of all connections of a namespace: what arrives in one turn of the event loop is one script, in
 * the order in which it came. Who releases and acquires in one breath is served in that order.
 */
export class LockJoins {
  readonly #namespace: Namespace;
  readonly #memory: MemoryPort;
  readonly #waitersMax: number;
  readonly #joiner: Joiner<Item, Said>;
  /** A queue was too long for one script: the sweep goes on with it. */
  readonly goOn: () => void;
  readonly grants: Grants;
  readonly durability: Durability;

  constructor(
    namespace: Namespace,
    sessions: Sessions,
    memory: MemoryPort,
    { waitersMax }: { waitersMax: number },
    goOn: () => void,
  ) {
    this.#namespace = namespace;
    this.durability = new Durability(namespace);
    this.grants = new Grants(sessions, () => this.durability.word);
    this.#memory = memory;
    this.#waitersMax = waitersMax;
    this.goOn = goOn;
    this.#joiner = new Joiner((items) => this.#run(items), {
      itemsMax: 50,
      callsMax: 2,
      waitingMax: 20_000,
      sizeOf: ({ nodes }) => nodes,
      bytesMax: nodesMax,
      overflow,
    });
  }

  async acquire({ id, binding }: SessionRef, ask: Ask): Promise<Acquired> {
    const [said] = await this.#joiner.add([itemOf(id, binding, ask)]);
    const [state, first, validMs, maxHold] = said!.words;
    if (state!.startsWith('!')) throw itemRefusal(state!);
    if (state === 'waiting') {
      const { place, ...held } = JSON.parse(first!) as { place: number };
      return { state, place, held };
    }
    const holds = maxHold === '' ? {} : { maxHoldMs: Number(maxHold) };
    const { word: durability } = this.durability;
    return { state: 'held', fence: Number(first), validMs: Number(validMs), ...holds, epoch: said!.epoch, durability };
  }

  async release({ id, binding }: SessionRef, grant: string): Promise<string> {
    const [said] = await this.#joiner.add([{ text: `r\0${id}\0${binding}\0${grant}\0`, nodes: 1, bytes: 0 }]);
    return said!.words[0]!;
  }

  /** Resolves when nothing of anybody is on its way to Redis. */
  idle(): Promise<void> {
    return this.#joiner.idle();
  }

  /** Resolves when what was asked until now has its answer. */
  passed(): Promise<void> {
    return this.#joiner.passed();
  }

  async #run(items: readonly Item[]): Promise<Said[]> {
    const news = this.grants.begin();
    try {
      const args: (string | number)[] = [this.#waitersMax, this.#memory.short ? 1 : ''];
      for (const { text } of items) args.push(text);
      this.#memory.puts(items.reduce((sum, { bytes }) => sum + bytes, 0));
      const reply = await this.#namespace.call<[string[][], string, number, NewsRow[]]>(script, args);
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

function itemOf(session: string, binding: number, ask: Ask): Item {
  const { grant, owner = '', waitMs, leaseMs = '', maxHoldMs = '', reason = '', release, reclaim = '', locks } = ask;
  let [rows, nodes] = ['', 1];
  for (const { name, node, word, permits } of locks) {
    rows += `${name}\0${node === name ? '' : node}\0${word}\0${permits}\0`;
    if (isPath(node)) nodes += node.split('/').length;
  }
  const times = `${waitMs}\0${leaseMs}\0${maxHoldMs}`;
  const head = `a\0${session}\0${binding}\0${grant}\0${owner}\0${times}\0${release ? 1 : 0}\0${reclaim}\0${locks.length}`;
  const text = `${head}\0${rows}${reason}`;
  return { text, nodes, bytes: text.length + nodes * nodeBytes };
}
