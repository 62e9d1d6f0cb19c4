import type { MemoryPort, SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import { itemRefusal } from '../protocol/batch.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { type Amounts, type Ask, flat } from './ask.js';
import { keyOf, LocalLimits } from './local.js';
import { type Definition, type LimitRow, limitOf } from './model.js';

const script = lua(import.meta.url, './reserve.lua', ['waitersMax', 'memoryShort']);
const adoptScript = lua(import.meta.url, './adopt.lua');
const getScript = lua(import.meta.url, './get.lua', ['name']);

/** What a call takes to Redis, and what is said of it while Redis is away; undefined: nothing may be. */
interface Item {
  readonly reservation: string;
  readonly args: readonly (string | number)[];
  readonly name: string | undefined;
  local(): Words | undefined;
}
/** `granted|waiting|settled` and what belongs to it, or one `!CODE …`. */
type Words = readonly string[];

/** One text an answer: a list in a list is what a reply of Redis costs most for. JSON text holds no tab. */
const wordsOf = (said: string): Words => (said.startsWith('!') ? [said] : said.split('\t'));

const overflow = (): Error => new Refusal('UNAVAILABLE', 'too many requests wait for Redis', { afterMs: 200 });
const away: Words = ['!UNAVAILABLE {"message":"Redis is away, and the limit is closed meanwhile","afterMs":500}'];

/** Redis is away: what is said where a limit is closed then. Undefined: it is another error. */
function closedBy(error: unknown): Words | undefined {
  if (!(error instanceof Refusal)) return undefined;
  if (error.code === 'UNAVAILABLE') return away;
  // It may have happened. Where a share is granted here meanwhile, adopt.lua finds what there is of it in Redis.
  const { message, afterMs } = error;
  return error.code === 'TIMEOUT' ? [`!TIMEOUT ${JSON.stringify({ message, afterMs })}`] : undefined;
}

/** About what a reservation, or what is remembered of it, takes in Redis, as Memory counts. */
const itemBytes = 250;
/** Rows that one script adopts. */
const adoptMax = 100;
/** Limits whose definition was asked for. */
const knownMax = 10_000;

/**
 * Reserves and settles of all connections of a namespace: what arrives in one turn of the event loop is one script, in
 * the order in which it came. Who settles and reserves in one breath is served in that order.
 */
export class LimitJoins {
  readonly #namespace: Namespace;
  readonly #lookAfter: (ms: number) => void;
  readonly #waitersMax: number;
  readonly #memory: MemoryPort;
  readonly #joiner: Joiner<Item, Words>;
  readonly #local = new LocalLimits();
  readonly #known = new Set<string>();
  #adopting: Promise<void> | undefined;

  /** `lookAfter`: in so many milliseconds a refill lets somebody in, and a sweep must see to it. */
  constructor(
    namespace: Namespace,
    memory: MemoryPort,
    { waitersMax }: { waitersMax: number },
    lookAfter: (ms: number) => void,
  ) {
    this.#namespace = namespace;
    this.#memory = memory;
    this.#waitersMax = waitersMax;
    this.#lookAfter = lookAfter;
    this.#joiner = new Joiner((items) => this.#run(items), {
      itemsMax: 100,
      callsMax: 2,
      waitingMax: 50_000,
      overflow,
    });
  }

  reserve({ id, binding, ttlMs }: SessionRef, ask: Ask): Promise<Words> {
    const { name, cost, reservation, waitMs, leaseMs, weight } = ask;
    const amounts = flat(cost);
    const args = ['r', id, binding, name, waitMs, leaseMs ?? '', weight, keyOf(ask), amounts.length / 2];
    for (const amount of amounts) args.push(amount);
    return this.#one({
      reservation,
      args,
      name,
      local: () => this.#local.reserve(id, ttlMs, ask, this.#namespace.seenFence),
    });
  }

  settle({ id, binding }: SessionRef, reservation: string, actual: Amounts): Promise<Words> {
    const amounts = flat(actual);
    const args = ['s', id, binding, amounts.length / 2, ...amounts];
    return this.#one({ reservation, args, name: undefined, local: () => this.#local.settle(id, reservation, actual) });
  }

  /** What a script said of the next moment: milliseconds, or ''. */
  look(soonest: string): void {
    if (soonest !== '') this.#lookAfter(Number(soonest));
  }

  /** What the log says of a definition. */
  defined(definition: Definition): void {
    if (this.#known.has(definition.name)) this.#local.learn(definition);
  }

  /** A part of the log was missed: definitions are asked for anew. */
  forget(): void {
    this.#known.clear();
  }

  /** Tells Redis what was granted without it; by the clock, and ahead of whatever is asked next. */
  async adopt(): Promise<void> {
    if (this.#local.isEmpty) return;
    this.#adopting ??= this.#adoptAll().finally(() => {
      this.#adopting = undefined;
    });
    await this.#adopting;
  }

  /** Resolves when nothing of anybody is on its way to Redis. */
  idle(): Promise<void> {
    return this.#joiner.idle();
  }

  /** Resolves when what was asked until now has its answer. */
  passed(): Promise<void> {
    return this.#joiner.passed();
  }

  async #one(item: Item): Promise<Words> {
    const [words] = await this.#joiner.add([item]);
    if (words![0]!.startsWith('!')) throw itemRefusal(words![0]!);
    return words!;
  }

  async #run(items: readonly Item[]): Promise<Words[]> {
    try {
      await this.adopt();
      const args: (string | number)[] = [this.#waitersMax, this.#memory.short ? 1 : '', items.length];
      for (const { reservation } of items) args.push(reservation);
      for (const item of items) for (const arg of item.args) args.push(arg);
      this.#memory.puts(items.length * itemBytes);
      const [results, soonest] = await this.#namespace.call<[string[], string]>(script, args);
      this.look(soonest);
      this.#learn(items);
      return results.map(wordsOf);
    } catch (error) {
      const closed = closedBy(error);
      if (!closed) throw error;
      return items.map(({ local }) => local() ?? closed);
    }
  }

  async #adoptAll(): Promise<void> {
    const rows = this.#local.rows();
    for (let from = 0; from < rows.length; from += adoptMax) {
      const page = rows.slice(from, from + adoptMax);
      const [soonest] = await this.#namespace.call<[string]>(adoptScript, page.flat());
      this.#local.clear(page.map(([, id]) => String(id)));
      this.look(soonest);
    }
  }

  /** Whether a limit has a share is asked once, when it is used here first; after that the log tells. */
  #learn(items: readonly Item[]): void {
    for (const { name } of items) {
      if (name === undefined || this.#known.has(name) || this.#known.size >= knownMax) continue;
      this.#known.add(name);
      this.#namespace.read<LimitRow | ''>(getScript, [name]).then(
        (row) => {
          if (row === '') this.#known.delete(name);
          else this.#local.learn(limitOf(row) as Definition);
        },
        () => this.#known.delete(name),
      );
    }
  }
}
