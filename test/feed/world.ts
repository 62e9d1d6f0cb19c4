import { type Config, configSchema } from '../../src/config.js';
import type { FeedSink } from '../../src/feed/sink.js';
import { Router } from '../../src/gateway/router.js';
import type { FeedTail } from '../../src/gateway/sinks.js';
import { type Client, openRedis, ScriptRunner } from '../../src/redis/connection.js';
import { EventLog } from '../../src/redis/event-log.js';
import { Namespace } from '../../src/redis/namespace.js';
import { lua } from '../../src/redis/script.js';
import type { TestRedis } from '../support/redis.js';

/** Emits `count` events in one entry: type, subject JSON and data JSON in turn. */
export const emitScript = lua(import.meta.url, './emit.lua');

type Settings = { gateway?: Partial<Config['gateway']>; log?: Partial<Config['log']> };

/** Without the checks between settings: tests shrink one and not its neighbours. */
export function configOf({ gateway, log }: Settings = {}): Config {
  const config = configSchema.parse({}) as Config;
  return {
    ...config,
    gateway: { ...config.gateway, ...gateway },
    log: { ...config.log, readBlockMs: 200, ...log },
  };
}

/** One daemon's side of a namespace, on a real Redis: scripts, log reader, router. */
export class World {
  readonly redis: TestRedis;
  readonly config: Config;
  readonly namespace: Namespace;
  readonly log: EventLog;
  readonly router: Router;
  readonly commands: Client;
  readonly opened: Client[] = [];

  private constructor(redis: TestRedis, config: Config, name: string, daemon: string, ringBytes: number) {
    this.redis = redis;
    this.config = config;
    const target = { kind: 'socket', path: redis.path } as const;
    this.commands = openRedis(target, 'commands', 2000);
    this.commands.on('error', () => {});
    this.namespace = new Namespace(name, new ScriptRunner(this.commands, []), {
      daemon,
      eventsMax: config.log.eventsMax,
    });
    this.log = new EventLog({
      namespace: this.namespace,
      open: () => {
        const client = openRedis(target, 'reader', 2000);
        this.opened.push(client);
        return client;
      },
      readBlockMs: config.log.readBlockMs,
      ringBytes,
    });
    this.router = new Router({ config, log: (wanted) => (wanted === name ? this.log : undefined) });
  }

  static async start(
    redis: TestRedis,
    options: { settings?: Settings; name?: string; daemon?: string; ringBytes?: number } = {},
  ): Promise<World> {
    const config = configOf(options.settings);
    const { name = 'default', daemon = 'd1', ringBytes = 4 << 20 } = options;
    const world = new World(redis, config, name, daemon, ringBytes);
    await world.commands.connect();
    await world.log.start();
    await world.router.start();
    return world;
  }

  /** One entry with the events `[type, data]…`. */
  async emit(...events: [type: string, data?: unknown, subject?: string][]): Promise<void> {
    const args = events.flatMap(([type, data = {}, subject = 'thing']) => [
      type,
      JSON.stringify(subject),
      JSON.stringify(data),
    ]);
    await this.namespace.call(emitScript, args);
  }

  /** `count` entries, numbered in `data.n` from `from` on, pipelined. */
  async emitMany(count: number, type = 'a.b', from = 1): Promise<void> {
    await Promise.all(Array.from({ length: count }, (_, i) => this.emit([type, { n: from + i }])));
  }

  async stop(): Promise<void> {
    await this.router.stop();
    await this.log.stop();
    this.commands.disconnect();
  }
}

type Line = { op: string; offset?: number; position?: string; event?: Record<string, unknown>; [key: string]: unknown };

/** Chunks are shared between sinks: each is parsed once. */
const parsed = new WeakMap<Buffer, Line[]>();
function parse(chunk: Buffer): Line[] {
  const known = parsed.get(chunk);
  if (known) return known;
  const lines = chunk
    .toString()
    .split('\n')
    .map((text) => JSON.parse(text) as Line);
  parsed.set(chunk, lines);
  return lines;
}

/** The feed lane of a connection: keeps what was written, takes as much as `room` says. */
export class FakeSink implements FeedSink {
  message = 1;
  readonly chunks: Buffer[] = [];
  readonly lines: Line[] = [];
  /** Of the events, and `data.n` of those that the tests number. */
  readonly offsets: number[] = [];
  readonly numbers: number[] = [];
  space = Number.POSITIVE_INFINITY;
  seals = 0;
  #wake: (() => void) | undefined;

  room(): number {
    return this.space;
  }
  write(chunk: Buffer, lines: number): void {
    this.chunks.push(chunk);
    const added = parse(chunk);
    if (added.length !== lines || lines > 64) throw new Error(`${added.length} lines, said to be ${lines}`);
    for (const line of added) {
      this.lines.push(line);
      this.offsets.push(line.offset!);
      const { n } = (line.event!.data ?? {}) as { n?: number };
      if (n !== undefined) this.numbers.push(n);
    }
    this.space -= chunk.length;
  }
  push(line: string): void {
    this.lines.push(JSON.parse(line) as Line);
  }
  onDrain(wake: () => void): void {
    this.#wake = wake;
    if (this.space > 0) setImmediate(() => this.drain(this.space));
  }
  seal(): void {
    this.seals++;
  }
  get waits(): boolean {
    return this.#wake !== undefined;
  }
  /** The socket took everything and has room for `bytes` more. */
  drain(bytes = Number.POSITIVE_INFINITY): void {
    this.space = bytes;
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
  /** What was written in events, as text. */
  get texts(): string[] {
    return this.chunks.flatMap((chunk) => chunk.toString().split('\n'));
  }
  ops(op: string): Line[] {
    return this.lines.filter((line) => line.op === op);
  }
}

export interface Watcher {
  readonly sink: FakeSink;
  readonly tail: FeedTail;
}

/** Numbers from 1 to `count`. */
export const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);
