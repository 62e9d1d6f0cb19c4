import { type Config, usesManagedRedis } from '../config.js';
import type { Service } from '../lib/service.js';
import { type Client, openRedis, type Purpose, type RedisTarget, ScriptRunner } from './connection.js';
import { inspectRedis } from './inspect.js';
import { ManagedRedis } from './managed.js';
import { scripts } from './script.js';
import { configuredTarget } from './target.js';

/** What the store says of itself; pino's shape. */
interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Redis as the daemon has it: its own one or a configured one, and the connection that commands go through. */
export class Store implements Service {
  readonly name = 'redis';
  readonly #config: Config;
  readonly #log: Log;
  #managed: ManagedRedis | undefined;
  #target: RedisTarget | undefined;
  #client: Client | undefined;
  #runner: ScriptRunner | undefined;

  constructor(config: Config, log: Log) {
    this.#config = config;
    this.#log = log;
  }

  /** True while commands can be sent. That is less than being read: see the log readers' age. */
  get up(): boolean {
    return this.#client?.status === 'ready';
  }

  get managed(): ManagedRedis | undefined {
    return this.#managed;
  }

  get client(): Client {
    if (!this.#client) throw new Error('the store has not started');
    return this.#client;
  }

  get runner(): ScriptRunner {
    if (!this.#runner) throw new Error('the store has not started');
    return this.#runner;
  }

  /** A connection of its own, not yet connected: blocking reads and pub/sub do not share one. */
  open(purpose: Purpose): Client {
    if (!this.#target) throw new Error('the store has not started');
    return openRedis(this.#target, purpose, this.#config.redis.commandTimeoutMs);
  }

  async start(): Promise<void> {
    this.#target = configuredTarget(this.#config) ?? (await this.#startManaged());
    const client = this.open('commands');
    this.#client = client;
    let said = '';
    client.on('error', (error: Error) => {
      // One line a reason, not one a retry.
      if (error.message !== said) this.#log.warn({ err: error.message }, 'Redis connection');
      said = error.message;
    });
    client.on('ready', () => {
      said = '';
      this.#log.info({}, 'Redis connection is ready');
    });
    this.#runner = new ScriptRunner(client, scripts);
    await this.#connect(client);
    const findings = await inspectRedis(client, { allowEviction: this.#config.redis.allowEviction });
    for (const { level, id, message, advice } of findings) {
      if (level === 'error') throw new Error(`${message} ${advice}`);
      if (level === 'warn') this.#log.warn({ check: id, advice }, message);
    }
  }

  async stop(): Promise<void> {
    this.#client?.disconnect();
    this.#client = undefined;
    await this.#managed?.stop();
  }

  async #startManaged(): Promise<RedisTarget> {
    const { stateDir, ephemeral, redis } = this.#config;
    if (!usesManagedRedis(this.#config)) throw new Error('no Redis is configured, and none may be started');
    const report = (event: object): void => this.#log.info(event, 'managed Redis');
    this.#managed = new ManagedRedis({ stateDir, ephemeral, ...redis.managed, report });
    await this.#managed.start();
    return { kind: 'socket', path: this.#managed.path };
  }

  /** A Redis that is just starting may take a moment; one that is not there should be said soon. */
  async #connect(client: Client): Promise<void> {
    const until = performance.now() + 10_000;
    await client.connect().catch(() => undefined);
    while (client.status !== 'ready') {
      if (performance.now() > until) throw new Error('Redis does not answer: is it running, and is redis.url right?');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
