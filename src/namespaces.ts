import type { Config } from './config.js';
import { Refusal } from './errors.js';
import { Loop } from './lib/loop.js';
import type { Service } from './lib/service.js';
import type { Client } from './redis/connection.js';
import { namespacesKey } from './redis/keys.js';
import { toRefusal } from './redis/namespace.js';
import { lua } from './redis/script.js';
import { upgrade } from './redis/upgrade.js';
import { ServedNamespace, type ServedOptions } from './served-namespace.js';

const script = lua(import.meta.url, './namespaces.lua', ['max']);

/**
 * The namespaces in use. One exists from the first session, or subscription to what is new, that names it and is not
 * refused; it is served by every daemon from then on, and stays. One that nobody has opened can be read, and is empty.
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

  /**
   * For a call that only reads: a namespace nobody opened is empty, and is not opened by being read. One that another
   * daemon has just opened is not yet served here, and not empty.
   */
  async peek(name: string): Promise<ServedNamespace> {
    const served = this.#served.get(name) ?? this.#starting.get(name);
    if (served) return await served;
    if ((await this.#register([])).includes(name)) return await this.open(name);
    return new ServedNamespace({ ...this.#options, name });
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
    if (!(await this.#register([name])).includes(name)) {
      throw new Refusal('LIMIT', `${this.#max} namespaces are in use; ${name} would be one more`, {
        details: { max: this.#max },
      });
    }
    const served = new ServedNamespace({ ...this.#options, name });
    await upgrade(served.namespace, this.#client);
    await served.start();
    this.#served.set(name, served);
    return served;
  }

  /** Names them as in use where there is room; answers all that are. */
  async #register(names: readonly string[]): Promise<string[]> {
    const { runner, daemon } = this.#options;
    const args = [daemon, '0', '', 0, 0, this.#max, ...names];
    return (await runner.run(script, [namespacesKey], args).catch((error) => {
      throw toRefusal(error, script.name);
    })) as string[];
  }

  /** What other daemons have opened is served here too, and what is served here is known to all after a FLUSHALL. */
  async #serveKnown(): Promise<undefined> {
    let fault: unknown;
    for (const name of await this.#register([...this.#served.keys()])) {
      // One that cannot be served must not keep the others from it.
      if (!this.#served.has(name)) await this.open(name).catch((error: unknown) => (fault = error));
    }
    if (fault) throw fault;
  }
}
