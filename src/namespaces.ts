import type { Config } from './config.js';
import { Refusal } from './errors.js';
import { Loop } from './lib/loop.js';
import type { Service } from './lib/service.js';
import type { Client } from './redis/connection.js';
import { namespacesKey } from './redis/keys.js';
import { ServedNamespace, type ServedOptions } from './served-namespace.js';

/** Stored-format version this program writes. A namespace of a newer one is refused; there is no older one yet. */
const format = 1;

/**
 * The namespaces in use. One exists from the first session or subscription that names it, is served by every daemon from
 * then on, and stays. One that nobody has opened can be read, and is empty.
 */
export class Namespaces implements Service {
  readonly name = 'namespaces';
  readonly #served = new Map<string, ServedNamespace>();
  readonly #starting = new Map<string, Promise<ServedNamespace>>();
  readonly #client: Client;
  readonly #max: number;
  readonly #options: Omit<ServedOptions, 'name'>;
  readonly #watch: Loop;

  constructor(client: Client, config: Config, options: Omit<ServedOptions, 'name'>) {
    this.#client = client;
    this.#max = config.namespacesMax;
    this.#options = options;
    this.#watch = new Loop(
      'namespaces',
      config.sweep.everyMs,
      () => this.#serveKnown(),
      (error) => options.onError('namespaces', error),
    );
  }

  async start(): Promise<void> {
    await this.open('default');
    await this.#watch.start();
  }

  async stop(): Promise<void> {
    await this.#watch.stop();
    await Promise.all([...this.#served.values()].map((served) => served.stop()));
    this.#served.clear();
  }

  [Symbol.iterator](): Iterator<ServedNamespace> {
    return this.#served.values();
  }

  get(name: string): ServedNamespace | undefined {
    return this.#served.get(name);
  }

  /** The parts for a call that only reads: a namespace nobody opened is empty, and is not opened by being read. */
  peek(name: string): ServedNamespace {
    return this.#served.get(name) ?? new ServedNamespace({ ...this.#options, name });
  }

  /** Opens the namespace if it is new; LIMIT if there are too many. */
  open(name: string): Promise<ServedNamespace> {
    const served = this.#served.get(name);
    if (served) return Promise.resolve(served);
    const starting = this.#starting.get(name);
    if (starting) return starting;
    const start = this.#open(name).finally(() => this.#starting.delete(name));
    this.#starting.set(name, start);
    return start;
  }

  async #open(name: string): Promise<ServedNamespace> {
    const added = await this.#client.zadd(namespacesKey, 'NX', Date.now(), name);
    if (added === 1 && (await this.#client.zcard(namespacesKey)) > this.#max) {
      await this.#client.zrem(namespacesKey, name);
      throw new Refusal('LIMIT', `${this.#max} namespaces are in use; ${name} would be one more`, {
        details: { max: this.#max },
      });
    }
    const served = new ServedNamespace({ ...this.#options, name });
    const stored = Number((await this.#client.hget(`${served.namespace.prefix}meta`, 'format')) ?? format);
    if (stored > format) {
      throw new Refusal(
        'UNAVAILABLE',
        `namespace ${name} is stored in format ${stored}; this daemon knows ${format}: run a newer one`,
      );
    }
    await served.start();
    this.#served.set(name, served);
    return served;
  }

  /** What other daemons have opened is served here too. */
  async #serveKnown(): Promise<undefined> {
    for (const name of await this.#client.zrange(namespacesKey, '0', String(this.#max - 1))) {
      if (!this.#served.has(name)) await this.open(name);
    }
  }
}
