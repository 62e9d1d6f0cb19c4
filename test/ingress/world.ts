import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { Ingress, type IngressOptions } from '../../src/ingress/ingress.js';
import { type Client, openRedis, ScriptRunner } from '../../src/redis/connection.js';
import { LogEntry, type LogEvent } from '../../src/redis/log-entry.js';
import { Namespace } from '../../src/redis/namespace.js';
import { configOf } from '../feed/world.js';
import type { TestRedis } from '../support/redis.js';

/** One daemon's ingress: two connections of its own, which can be cut or stalled apart from each other. */
export class Daemon {
  readonly ingress: Ingress;
  readonly namespaces = new Map<string, Namespace>();
  readonly commands: Client;
  readonly unknown: string[] = [];
  link: Client | undefined;

  constructor(
    redis: TestRedis,
    name: string,
    options: Partial<IngressOptions> & {
      path?: string;
      calls?: (call: () => Promise<unknown>) => Promise<unknown>;
    } = {},
  ) {
    const target = { kind: 'socket', path: redis.path } as const;
    this.commands = openRedis(target, 'commands', 2000);
    this.commands.on('error', () => {});
    const runner = new ScriptRunner(this.commands, []);
    const { calls, path = redis.path, ...rest } = options;
    if (calls) {
      const run = runner.run.bind(runner);
      runner.run = (...args) => calls(() => run(...args));
    }
    for (const space of ['default', 'other'])
      this.namespaces.set(space, new Namespace(space, runner, { daemon: name, eventsMax: 1_000_000 }));
    this.ingress = new Ingress({
      config: configOf(),
      open: () => {
        this.link = openRedis({ kind: 'socket', path }, 'subscriber', 2000);
        return this.link;
      },
      namespaces: { get: (space) => this.namespaces.get(space), all: () => this.namespaces.values() },
      onUnknown: (space) => this.unknown.push(space),
      leaseMs: 600,
      pingMs: 300,
      ...rest,
    });
  }

  get appending(): boolean {
    return this.ingress.stats().appending.includes('default');
  }

  async start(): Promise<this> {
    await this.commands.connect();
    await this.ingress.start();
    return this;
  }

  async stop(): Promise<void> {
    await this.ingress.stop();
    this.commands.disconnect();
  }

  /** As kill -9 would: nothing is said any more, on either connection. */
  die(): void {
    this.commands.disconnect();
    this.link?.disconnect();
    this.ingress.stop().catch(() => undefined);
  }
}

/** All events of the log, from Redis itself. */
export async function logged(redis: Client, namespace = 'default'): Promise<LogEvent[]> {
  const rows = (await redis.xrange(`sb:{${namespace}}:log`, '-', '+')) as [string, string[]][];
  return rows.flatMap(([id, fields]) => new LogEntry(id, fields, `"/signalbox/${namespace}"`).events);
}

export const numbersOf = (events: readonly LogEvent[]): number[] =>
  events.filter(({ own }) => !own).map(({ data }) => (data as { n: number }).n);

/** Stands between a client and Redis, and can go silent without closing. */
export class LinkProxy {
  readonly path: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #silent = false;

  private constructor(path: string, server: Server) {
    this.path = path;
    this.#server = server;
  }

  static async open(redis: TestRedis): Promise<LinkProxy> {
    const path = join(redis.path, '..', `proxy-${Math.random().toString(36).slice(2)}.sock`);
    const server = createServer();
    const proxy = new LinkProxy(path, server);
    server.on('connection', (near) => {
      const far = dial(redis.path);
      for (const [a, b] of [
        [near, far],
        [far, near],
      ] as const) {
        proxy.#sockets.add(a);
        a.on('error', () => {});
        a.on('data', (bytes) => {
          if (!proxy.#silent) b.write(bytes);
        });
        a.on('close', () => {
          proxy.#sockets.delete(a);
          b.destroy();
        });
      }
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
    return proxy;
  }

  /** Drops what comes from either side and keeps the connections open; new ones are silent as well. */
  silence(silent: boolean): void {
    this.#silent = silent;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
