import type { RequestListener } from 'node:http';
import { commandTable } from './commands.js';
import type { Config } from './config.js';
import type { Connection } from './gateway/connection.js';
import { ConnectionWorkers } from './gateway/connection-workers.js';
import type { Ending, GatewayHooks } from './gateway/hooks.js';
import { Router } from './gateway/router.js';
import { Gateway } from './gateway/server.js';
import { Ingress } from './ingress/ingress.js';
import { lastWords } from './lease/last-words.js';
import { socketGone } from './lease/socket-gone.js';
import { present } from './lib/assert.js';
import { newId } from './lib/ids.js';
import type { Service } from './lib/service.js';
import { Namespaces } from './namespaces.js';
import type { Log } from './ops/log.js';
import { Store } from './redis/store.js';

export interface AppOptions {
  readonly config: Config;
  readonly log: Log;
  /** Answers HTTP requests that are no WebSocket; made from the app, which it reports on. */
  readonly http: (app: App) => RequestListener;
}

/** The daemon: the one place where the parts are tied together, in the order in which they start. */
export class App implements Service {
  readonly name = 'signalbox';
  /** Names this process in events: an event says which daemon caused it. */
  readonly daemon = newId();
  readonly config: Config;
  readonly store: Store;
  readonly gateway: Gateway;
  readonly router: Router;
  #namespaces: Namespaces | undefined;
  #ingress: Ingress | undefined;
  #starting: Promise<void> | undefined;
  readonly #told = new Map<string, number>();
  readonly #log: Log;
  /** Ends of sockets that Redis is being told of. */
  readonly #telling = new Set<Promise<void>>();
  #state: 'new' | 'running' | 'draining' | 'stopped' = 'new';

  constructor({ config, log, http }: AppOptions) {
    this.config = config;
    this.#log = log;
    this.store = new Store(config, log);
    this.router = new Router({ config, log: (name) => this.#namespaces?.get(name)?.log });
    this.gateway = new Gateway({ config, commands: commandTable, hooks: this.#hooks(), http: http(this) });
  }

  get draining(): boolean {
    return this.#state === 'draining' || this.#state === 'stopped';
  }

  get namespaces(): Namespaces {
    return present(this.#namespaces, 'the namespaces of a started daemon');
  }

  start(): Promise<void> {
    if (this.#state === 'new') {
      this.#state = 'running';
      this.#starting = this.#start();
    }
    return this.#starting ?? Promise.resolve();
  }

  #stopping(): boolean {
    return this.#state !== 'running';
  }

  async #start(): Promise<void> {
    await this.store.start();
    if (this.#stopping()) return;
    this.#namespaces = new Namespaces(this.store.client, this.config, {
      daemon: this.daemon,
      config: this.config,
      runner: this.store.runner,
      openReader: () => this.store.open('reader'),
      registry: this.gateway.registry,
      onError: (what, error) => this.#fault(what, error),
    });
    await this.#namespaces.start();
    if (this.#stopping()) return;
    this.#ingress = this.#listenToServices(this.#namespaces);
    await this.#ingress.start();
    if (this.#stopping()) return;
    await this.router.start();
    await this.gateway.start();
  }

  /**
   * Drains: nobody is given work any more, pushes that were not received go back refunded, sockets are sent away over
   * the drain window. Sessions and what they hold live on in Redis and resume elsewhere. Redis, if it is ours, goes last.
   */
  async stop(): Promise<void> {
    if (this.#state === 'stopped' || this.#state === 'draining') return;
    this.#state = 'draining';
    // A start that is under way ends at its next step; what it has begun by then is stopped like all else.
    await this.#starting?.catch(() => undefined);
    const started = this.#namespaces;
    if (started) {
      for (const served of started) served.pool.drain();
      await this.gateway.drain(this.config.gateway.drainMs);
    }
    await this.gateway.stop();
    // What the sockets left behind is told before the connection to Redis goes; while Redis is away nobody waits for it.
    if (this.store.up)
      await Promise.race([Promise.allSettled(this.#telling), patience(this.config.redis.commandTimeoutMs)]);
    await this.router.stop();
    await this.#ingress?.stop();
    await started?.stop();
    await this.store.stop();
    this.#state = 'stopped';
  }

  /** For health. */
  get ingress(): Ingress | undefined {
    return this.#ingress;
  }

  #listenToServices(namespaces: Namespaces): Ingress {
    return new Ingress({
      config: this.config,
      open: () => this.store.open('subscriber'),
      namespaces: {
        get: (name) => namespaces.get(name)?.namespace,
        *all() {
          for (const { namespace } of namespaces) yield namespace;
        },
      },
      onUnknown: (namespace) =>
        this.#log.warn({ namespace }, 'messages for a namespace that nobody has opened are dropped'),
      onRefused: (error) => this.#fault('listening to services', error),
    });
  }

  /** One line a reason and ten seconds: what fails is tried again many times a second. */
  #fault(what: string, error: unknown): void {
    const reason = `${what}: ${error instanceof Error ? error.message : String(error)}`;
    const now = performance.now();
    if (now - (this.#told.get(reason) ?? Number.NEGATIVE_INFINITY) < 10_000) return;
    if (this.#told.size > 1000) this.#told.clear();
    this.#told.set(reason, now);
    this.#log.warn({ err: error, what }, 'a background task failed; it is tried again');
  }

  #hooks(): GatewayHooks {
    return {
      heard: ({ session, namespaceName }) => {
        if (session) this.namespaces.get(namespaceName)?.sessions.heard(session);
      },
      attached: ({ session, namespaceName }) => {
        if (session) this.namespaces.get(namespaceName)?.sessions.attach(session);
      },
      detached: ({ namespaceName }, session) => this.#namespaces?.get(namespaceName)?.sessions.detach(session),
      closed: (connection, how) => this.#closed(connection, how),
      redisUp: () => this.store.up,
      feedPort: (_, sink) => this.router.open(sink),
      workersPort: (connection, sink) => {
        const { pool } = present(this.namespaces.get(connection.namespaceName), 'the namespace of a session');
        return new ConnectionWorkers(() => connection.session, pool, sink, this.config.gateway.lineBytes);
      },
      namespace: async (name, opens) =>
        (await (opens ? this.namespaces.open(name) : this.namespaces.peek(name))).parts(),
    };
  }

  #closed({ session, namespaceName, closing }: Connection, how: Ending): void {
    const served = session && this.#namespaces?.get(namespaceName);
    if (!session || !served) return;
    const before = how === 'clean' ? lastWords(served) : returned();
    const told = before.then(() => socketGone(served.namespace, session, how, closing));
    this.#telling.add(told);
    told.catch((error) => this.#fault('socket gone', error)).finally(() => this.#telling.delete(told));
  }
}

const patience = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref());
// What never reached the socket goes back first, refunded: once the session has ended it would be charged.
const returned = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
