import type { MemoryPort } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { freshOf, type PutItem, putArgs } from './items.js';
import type { ClaimRows, Dispatcher, Fresh } from './port.js';
import { isFull, type PressureRow, type PutResult, putOfFull, withheldText, withPressure } from './put-result.js';

const enqueueScript = lua(import.meta.url, './enqueue.lua', ['kindsMax', 'memoryShort']);
const completeScript = lua(import.meta.url, './complete.lua');
const failScript = lua(import.meta.url, './fail.lua');
const releaseScript = lua(import.meta.url, './release.lua', ['refundsMax']);
const bothScript = lua(import.meta.url, './complete-and-enqueue.lua', ['kindsMax', 'memoryShort']);
const claimScript = lua(import.meta.url, './claim.lua');

/** Who speaks: the session and the binding of the socket it came in on. */
export interface Speaker {
  readonly session: string;
  readonly binding: number;
}

export interface Completion extends Speaker {
  readonly task: string;
  readonly fence: number;
  readonly result: string;
}

export interface Failure extends Speaker {
  readonly task: string;
  readonly fence: number;
  readonly error: string;
  readonly cut: string;
  readonly retry: boolean;
  readonly afterMs: number | undefined;
}

export interface Release extends Speaker {
  readonly task: string;
  readonly fence: number;
  readonly reason: 'released' | 'undelivered' | 'drained';
  readonly afterMs: number | undefined;
  readonly saved: string;
}

/** Completions and new tasks that are done together or not at all. */
interface Step {
  readonly items: readonly Completion[];
  readonly puts: readonly PutItem[];
}
interface StepDone {
  readonly completions: string[];
  readonly puts: PutResult[];
}

const overflow = (): Error => new Refusal('UNAVAILABLE', 'too many requests wait for Redis', { afterMs: 200 });

/**
 * At most 200 items and about 4 MiB a script (they stay short), two scripts on their way, 50,000 items and 256 MiB
 * waiting in this process.
 */
const MiB = 1024 * 1024;
const bounds = {
  itemsMax: 200,
  callsMax: 2,
  waitingMax: 50_000,
  bytesMax: 4 * MiB,
  waitingBytesMax: 256 * MiB,
  overflow,
};

/**
 * The queue commands of all connections of a namespace, joined by turn of the event loop into a script or two each, together
 * with what the idle workers of this daemon want.
 */
export class QueueJoins {
  readonly #namespace: Namespace;
  readonly #dispatcher: Dispatcher;
  readonly #memory: MemoryPort;
  readonly #kindsMax: number;
  readonly #refundsMax: number;
  readonly #enqueues: Joiner<PutItem, PutResult>;
  readonly #completions: Joiner<Completion, string>;
  readonly #failures: Joiner<Failure, string>;
  readonly #releases: Joiner<Release, string>;
  readonly #steps: Joiner<Step, StepDone>;

  constructor(
    namespace: Namespace,
    dispatcher: Dispatcher,
    memory: MemoryPort,
    settings: { kindsMax: number; refundsMax: number },
  ) {
    this.#namespace = namespace;
    this.#dispatcher = dispatcher;
    this.#memory = memory;
    this.#kindsMax = settings.kindsMax;
    this.#refundsMax = settings.refundsMax;
    this.#enqueues = new Joiner((items, more) => this.#put(items, more), {
      ...bounds,
      sizeOf: ({ tail }) => tail.length,
    });
    this.#completions = new Joiner((items, more) => this.#complete(items, more), {
      ...bounds,
      sizeOf: ({ result }) => result.length,
    });
    this.#failures = new Joiner((items, more) => this.#fail(items, more), {
      ...bounds,
      sizeOf: ({ error, cut }) => error.length + cut.length,
    });
    this.#releases = new Joiner((items, more) => this.#release(items, more), {
      ...bounds,
      sizeOf: ({ saved }) => saved.length,
    });
    // Each is a script of its own, and leaves when what was asked beside it leaves: of two ends of one task the first counts.
    this.#steps = new Joiner(([step]) => this.#step(step!), {
      ...bounds,
      itemsMax: 1,
      callsMax: 32,
      sizeOf: ({ items, puts }) => sum(items, ({ result }) => result.length) + sum(puts, ({ tail }) => tail.length),
    });
  }

  enqueue(items: readonly PutItem[]): Promise<PutResult[]> {
    return this.#enqueues.add(items);
  }

  complete(items: readonly Completion[]): Promise<string[]> {
    return this.#freeing(items, () => this.#completions.add(items), asIs);
  }

  fail(items: readonly Failure[]): Promise<string[]> {
    return this.#freeing(items, () => this.#failures.add(items), asIs);
  }

  release(items: readonly Release[]): Promise<string[]> {
    return this.#freeing(items, () => this.#releases.add(items), asIs);
  }

  /** Completions and new tasks in one step of their own: if one item is refused nothing is done. */
  async completeAndEnqueue(items: readonly Completion[], puts: readonly PutItem[]): Promise<StepDone> {
    const run = (): Promise<StepDone[]> => this.#steps.add([{ items, puts }]);
    return (await this.#freeing(items, run, ([done]) => done!.completions))[0]!;
  }

  /** Resolves when nothing of anybody is on its way to Redis: a stopping daemon waits for it. */
  async idle(): Promise<void> {
    await Promise.all(this.#joiners.map((joiner) => joiner.idle()));
  }

  /** Resolves when what was asked until now has its answer. */
  async passed(): Promise<void> {
    await Promise.all(this.#joiners.map((joiner) => joiner.passed()));
  }

  /** A call waits to go, and will ask for whoever is idle. */
  get asksSoon(): boolean {
    return this.#joiners.some(({ waiting }) => waiting > 0);
  }

  get #joiners(): Pick<Joiner<never, never>, 'idle' | 'passed' | 'waiting'>[] {
    return [this.#enqueues, this.#completions, this.#failures, this.#releases, this.#steps];
  }

  /** Serves idle workers and waiting claims once. */
  async claim(): Promise<void> {
    await this.#asking<[ClaimRows]>(claimScript, [], 0);
  }

  /**
   * A finished task frees its worker's credit in the very script that finishes it; if that fails, or refuses and leaves
   * the task with its holder, the credit is taken again.
   */
  async #freeing<T>(
    items: readonly { session: string; task: string; fence: number }[],
    run: () => Promise<T>,
    textsOf: (reply: T) => readonly string[],
  ): Promise<T> {
    // Begun first: the script of this very completion, and not a claim of its own, asks for the credit freed here.
    const begun = run();
    const undo = items.map((item) => this.#dispatcher.finished(item.session, item.task, item.fence));
    try {
      const reply = await begun;
      textsOf(reply).forEach((text, i) => {
        if (staysHeld(text)) undo[i]!('held');
      });
      return reply;
    } catch (error) {
      for (const back of undo) back('unknown');
      throw error;
    }
  }

  async #asking<Reply extends unknown[]>(
    script: Parameters<Namespace['call']>[0],
    args: readonly (string | number)[],
    rowsAt: number,
    most?: number,
    fresh?: ReadonlyMap<string, Fresh>,
  ): Promise<Reply> {
    const asked = this.#dispatcher.ask(most, fresh);
    try {
      const reply = await this.#namespace.call<Reply>(script, [...args, ...asked.args]);
      asked.settle(reply[rowsAt] as ClaimRows);
      return reply;
    } catch (error) {
      asked.fail(error);
      throw error;
    }
  }

  async #put(items: readonly PutItem[], more: boolean): Promise<PutResult[]> {
    type Reply = [string[], ClaimRows, PressureRow[]];
    const args = [...this.#putHead(items), ...putArgs(items)];
    try {
      const [results, , pressure] = await this.#asking<Reply>(
        enqueueScript,
        args,
        1,
        mostOf(items, more),
        freshOf(items),
      );
      return withPressure(items, results, pressure);
    } catch (error) {
      // Redis refused its first write: nothing of it happened.
      if (!isFull(error)) throw error;
      return items.map(() => putOfFull);
    }
  }

  #putHead(items: readonly PutItem[]): (string | number)[] {
    const short = this.#memory.short ? 1 : '';
    this.#memory.puts(sum(items, ({ tail }) => tail.length));
    return [this.#kindsMax, short];
  }

  async #complete(items: readonly Completion[], more: boolean): Promise<string[]> {
    return (
      await this.#asking<[string[], ClaimRows]>(completeScript, completionArgs(items), 1, mostOf(items, more))
    )[0];
  }

  async #step({ items, puts }: Step): Promise<[StepDone]> {
    const args = [...this.#putHead(puts), ...completionArgs(items), ...putArgs(puts)];
    type Reply = [string[], string[], ClaimRows, PressureRow[]];
    try {
      const [completions, results, , pressure] = await this.#asking<Reply>(
        bothScript,
        args,
        2,
        undefined,
        freshOf(puts),
      );
      return [{ completions, puts: withPressure(puts, results, pressure) }];
    } catch (error) {
      if (!isFull(error) || puts.length === 0) throw error;
      return [{ completions: items.map(() => withheldText), puts: puts.map(() => putOfFull) }];
    }
  }

  async #fail(items: readonly Failure[], more: boolean): Promise<string[]> {
    const args: (string | number)[] = [items.length];
    for (const item of items) {
      args.push(item.task, item.fence, item.session, item.binding, item.error, item.cut);
      args.push(item.retry ? 1 : 0, item.afterMs ?? '', Math.random());
    }
    return (await this.#asking<[string[], ClaimRows]>(failScript, args, 1, mostOf(items, more)))[0];
  }

  async #release(items: readonly Release[], more: boolean): Promise<string[]> {
    const args: (string | number)[] = [this.#refundsMax, items.length];
    for (const item of items) {
      args.push(item.task, item.fence, item.session, item.binding, item.reason, item.afterMs ?? '', item.saved);
    }
    return (await this.#asking<[string[], ClaimRows]>(releaseScript, args, 1, mostOf(items, more)))[0];
  }
}

const sum = <T>(items: readonly T[], of: (item: T) => number): number => items.reduce((all, item) => all + of(item), 0);
/**
 * A call that another one follows asks for no more than it frees itself. If the first asked for all, their tasks would
 * all come with its answer, and client, daemon and Redis would each wait for the two others.
 */
const mostOf = (items: readonly unknown[], more: boolean): number | undefined => (more ? items.length : undefined);

const asIs = (texts: string[]): readonly string[] => texts;

/** Withheld beside a refused neighbour, or asked for by an older socket of the session: the attempt goes on. */
function staysHeld(text: string): boolean {
  return (
    text.startsWith('!CONFLICT') || text.startsWith('!STALE_FENCE {"message":"the session speaks on a newer socket"')
  );
}

function completionArgs(items: readonly Completion[]): (string | number)[] {
  const args: (string | number)[] = [items.length];
  for (const item of items) args.push(item.task, item.fence, item.session, item.binding, item.result);
  return args;
}
