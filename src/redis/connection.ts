import { Cluster, type ClusterOptions, type RedisOptions as IoredisOptions, Redis } from 'ioredis';
import type { Script } from './script.js';

// ioredis types its constructors against exact optional properties with this one left out.
type RedisOptions = Omit<IoredisOptions, 'replyMapping'>;

/** Where Redis is. `options` and the Sentinel or Cluster parts are passed on to ioredis as they are. */
export type RedisTarget =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'url'; readonly url: string; readonly options?: RedisOptions }
  | { readonly kind: 'options'; readonly options: RedisOptions }
  | {
      readonly kind: 'cluster';
      readonly nodes: readonly { host: string; port: number }[];
      readonly options: RedisOptions;
    };

export type Client = Redis | Cluster;

export const isCluster = (client: Client): client is Cluster => client instanceof Cluster;

/**
 * `commands`: writes are never sent twice by ioredis (a reply may be lost after the work was done), so an in-flight
 * command must end by its own timeout; it fails at once while Redis is away instead of queueing without bound.
 * `reader`: blocking reads, idempotent by offset; the caller races each with a deadline of its own.
 * `subscriber`: pub/sub.
 */
export type Purpose = 'commands' | 'reader' | 'subscriber';

const retryMs = (times: number): number => Math.min(50 * 2 ** Math.min(times, 6), 1000) * (0.5 + Math.random() / 2);

function optionsFor(purpose: Purpose, commandTimeoutMs: number) {
  const shared = {
    lazyConnect: true,
    retryStrategy: retryMs,
    connectTimeout: 5000,
    keepAlive: 10_000,
    reconnectOnError: (error: Error): false | 1 => (/^(READONLY|UNBLOCKED)/.test(error.message) ? 1 : false),
  };
  if (purpose === 'commands') {
    return {
      ...shared,
      commandTimeout: commandTimeoutMs,
      // A link that died silently is never closed by anybody: asked twice as long without a byte, it is replaced.
      socketTimeout: 2 * commandTimeoutMs,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
    };
  }
  return { ...shared, maxRetriesPerRequest: null, autoResendUnfulfilledCommands: purpose === 'reader' };
}

/** A new connection; the caller connects it, listens to `error`, and discards it by `disconnect()`. */
export function openRedis(target: RedisTarget, purpose: Purpose, commandTimeoutMs: number): Client {
  const options = optionsFor(purpose, commandTimeoutMs);
  switch (target.kind) {
    case 'socket':
      return new Redis({ ...options, path: target.path } as RedisOptions);
    case 'url':
      return new Redis(target.url, { ...options, ...target.options } as RedisOptions);
    case 'options':
      return new Redis({ ...options, ...target.options } as RedisOptions);
    case 'cluster':
      return new Cluster([...target.nodes], {
        lazyConnect: true,
        enableOfflineQueue: purpose !== 'commands',
        redisOptions: { ...options, ...target.options } as ClusterOptions['redisOptions'],
      } as never);
  }
}

/** ioredis hangs the whole command on its errors: payloads, that is, which no log may show. */
function withoutArguments(error: unknown): unknown {
  if (typeof error === 'object' && error !== null && 'command' in error) delete error.command;
  return error;
}

/** Runs scripts by their hash; loads them when a connection becomes ready, and again when Redis has forgotten them. */
export class ScriptRunner {
  readonly #client: Client;
  readonly #scripts: readonly Script[];

  constructor(client: Client, scripts: readonly Script[]) {
    this.#client = client;
    this.#scripts = scripts;
    client.on('ready', () => {
      this.load().catch(() => undefined); // A miss is made good by NOSCRIPT.
    });
  }

  async load(): Promise<void> {
    if (isCluster(this.#client)) return;
    const client = this.#client;
    await Promise.all(this.#scripts.map((script) => client.script('LOAD', script.lua)));
  }

  async run(script: Script, keys: readonly string[], args: readonly (string | number | Buffer)[]): Promise<unknown> {
    try {
      return await this.#client.evalsha(script.sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw withoutArguments(error);
      return await this.#client.eval(script.lua, keys.length, ...keys, ...args).catch((again) => {
        throw withoutArguments(again);
      });
    }
  }
}
