import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach } from 'vitest';
import { type ClientOptions, WebSocket } from 'ws';
import { z } from 'zod';
import { loadConfig } from '../../src/config.js';
import type { ConnectionPort, SessionRef } from '../../src/context.js';
import { type ErrorCode, errors, Refusal } from '../../src/errors.js';
import type { Connection } from '../../src/gateway/connection.js';
import type { Ending, GatewayHooks, NamespaceParts } from '../../src/gateway/hooks.js';
import { Gateway } from '../../src/gateway/server.js';
import type { FeedSink, FeedTail, Workers, WorkersSink } from '../../src/gateway/sinks.js';
import { type AnyCommand, defineCommand } from '../../src/protocol/command.js';
import { RevocableRaw } from '../../src/protocol/frame.js';
import { Json, NamespaceName } from '../../src/protocol/primitives.js';
import { Raw } from '../../src/protocol/raw-json.js';
import type { Fate } from '../../src/queue/port.js';

/**
 * A gateway on a free port with commands that do nothing but exercise it. The commands are real ones (`defineCommand`),
 * what stands behind them is played: a session is a row here, a tail and workers are the sinks the gateway gave out.
 */
export class Station {
  readonly gateway: Gateway;
  readonly endings: { connection: Connection; how: Ending }[] = [];
  readonly fates: Fate[] = [];
  readonly tails = new Map<number, { sink: FeedSink; disposed: boolean }>();
  readonly workers = new Map<number, { sink: WorkersSink; disposed: boolean }>();
  readonly unwritten: string[] = [];
  readonly attached: string[] = [];
  readonly detached: string[] = [];
  readonly released: (() => void)[] = [];
  readonly messages: number[] = [];
  heard = 0;
  brokenHooks = false;
  bindings = 0;
  #watchers: { met: () => boolean; resolve: () => void }[] = [];

  constructor(settings: Record<string, unknown> = {}) {
    const config = loadConfig({ flags: { 'gateway.port': 0, ...settings } });
    this.gateway = new Gateway({
      config,
      commands: new Map(commands(this).map((command) => [command.name, command])),
      hooks: this.#hooks(),
      http: (_request, response) => response.end('ops'),
    });
  }

  get port(): number {
    return this.gateway.address().port;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}/v1/ws`;
  }

  /** Resolves once `met` holds; it is asked whenever something was told to a hook. */
  until(met: () => boolean): Promise<void> {
    if (met()) return Promise.resolve();
    return new Promise((resolve) => this.#watchers.push({ met, resolve }));
  }

  tell(): void {
    const met = this.#watchers.filter((watcher) => watcher.met());
    this.#watchers = this.#watchers.filter((watcher) => !met.includes(watcher));
    for (const { resolve } of met) resolve();
  }

  connection(): Connection {
    const last = [...this.gateway.registry].at(-1);
    if (!last) throw new Error('no connection');
    return last;
  }

  deliver(connection: Connection, line: string): void {
    connection.deliver(line, (fate) => {
      this.fates.push(fate);
      this.tell();
      if (this.brokenHooks) throw new Error('a hook that throws');
    });
  }

  #hooks(): GatewayHooks {
    return {
      heard: () => {
        if (this.brokenHooks) throw new Error('a hook that throws');
        this.heard++;
        this.tell();
      },
      attached: ({ session }) => this.attached.push(session!.id),
      detached: (_, session) => this.detached.push(session.id),
      closed: (connection, how) => {
        this.endings.push({ connection, how });
        this.tell();
      },
      redisUp: () => true,
      feedPort: (connection, sink) => this.#tail(connection, sink),
      workersPort: (connection, sink) => this.#workersOf(connection, sink),
      namespace: async (name) => {
        if (name === 'too-many') throw new Refusal('LIMIT');
        return { namespace: { name }, served: true } as unknown as NamespaceParts;
      },
    };
  }

  #tail(connection: Connection, sink: FeedSink): FeedTail {
    const tail = { sink, disposed: false };
    this.tails.set(connection.id, tail);
    return {
      position: { epoch: 'e1', offset: 7 },
      message: 0,
      subscribe: () => 's1',
      unsubscribe: () => {
        sink.seal();
        return true;
      },
      dispose: () => {
        tail.disposed = true;
      },
    };
  }

  #workersOf(connection: Connection, sink: WorkersSink): Workers {
    const workers = { sink, disposed: false };
    this.workers.set(connection.id, workers);
    return {
      declare: () => undefined,
      setCredit: () => true,
      claim: async () => [],
      giveBack: () => undefined,
      blocked: () => undefined,
      dispose: () => {
        workers.disposed = true;
      },
    };
  }
}

const text = z.string();

function commands(station: Station): AnyCommand[] {
  const about = 'Exercises the gateway.';
  const common = { about, fails: [] as ErrorCode[] };
  const where = async (_: unknown, { namespace }: { namespace: { name: string } }) => ({ namespace: namespace.name });
  return [
    defineCommand({
      ...common,
      name: 'ping',
      allowed: 'anyone',
      params: z.object({ data: Json.optional() }),
      result: z.unknown(),
      run: async ({ data }) => new Raw(`{"data":${data ?? null}}`),
    }),
    defineCommand({
      ...common,
      name: 'session.open',
      allowed: 'anyone',
      params: z.object({
        agent: text,
        namespace: NamespaceName.default('default'),
        token: text.optional(),
        ttlMs: z.int().optional(),
        resume: text.optional(),
      }),
      result: z.unknown(),
      run: async (params, { connection, namespace }) => {
        if (!connection.authenticate(params.token)) throw new Refusal('UNAUTHENTICATED');
        if (params.agent === 'refused') throw new Refusal('BAD_KEY');
        if (params.agent === 'slow') await new Promise<void>((resolve) => station.released.push(resolve));
        const session = sessionRef(params.resume ?? `of-${params.agent}`, ++station.bindings, params.ttlMs);
        connection.attach(session);
        return { session: session.id, namespace: namespace.name };
      },
    }),
    defineCommand({
      ...common,
      name: 'session.close',
      allowed: 'session',
      params: z.object({}),
      result: z.unknown(),
      run: async (_, { connection }) => {
        connection.detach();
        return {};
      },
    }),
    defineCommand({
      ...common,
      name: 'echo',
      allowed: 'watcher',
      params: z.object({ text: text.optional(), payload: Json.optional() }),
      result: z.unknown(),
      run: async ({ text, payload }) => (payload === undefined ? { text } : new Raw(`{"payload":${payload}}`)),
    }),
    defineCommand({
      ...common,
      name: 'where',
      allowed: 'watcher',
      params: z.object({}),
      result: z.unknown(),
      run: where,
    }),
    defineCommand({
      ...common,
      name: 'message',
      allowed: 'watcher',
      params: z.object({}),
      result: z.unknown(),
      run: async (_, { connection }) => {
        void connection.feed;
        station.messages.push(station.tails.get(connection.id)!.sink.message);
        return {};
      },
    }),
    defineCommand({
      ...common,
      name: 'mine',
      allowed: 'session',
      params: z.object({}),
      result: z.unknown(),
      run: where,
    }),
    defineCommand({
      ...common,
      name: 'put',
      allowed: 'watcher',
      params: z.object({
        queue: z.string().max(5),
        tasks: z
          .array(
            z.object({
              payload: Json,
              priority: z.int().min(0).max(100).default(50),
              labels: z.record(z.string(), text).optional(),
            }),
          )
          .max(3),
        how: z.union([z.object({ all: z.boolean() }), z.string()]).optional(),
      }),
      result: z.unknown(),
      run: async ({ tasks }) => ({ tasks }),
    }),
    defineCommand({
      ...common,
      name: 'fail',
      allowed: 'watcher',
      params: z.object({ code: z.enum(Object.keys(errors) as [ErrorCode]), afterMs: z.int().optional() }),
      result: z.unknown(),
      run: async ({ code, afterMs }) => {
        throw new Refusal(code, undefined, { afterMs, details: { why: 'asked' } });
      },
    }),
    defineCommand({
      ...common,
      name: 'crash',
      allowed: 'watcher',
      params: z.object({ how: text }),
      result: z.unknown(),
      run: (({ how }: { how: string }) => crash(how)) as never,
    }),
    defineCommand({
      ...common,
      name: 'sized',
      allowed: 'watcher',
      params: z.object({ bytes: z.int() }),
      result: z.unknown(),
      run: async ({ bytes }) => ({ text: 'x'.repeat(bytes) }),
    }),
    defineCommand({
      ...common,
      name: 'held',
      allowed: 'watcher',
      params: z.object({}),
      result: z.unknown(),
      run: () =>
        new Promise((resolve) => {
          station.released.push(() => resolve({}));
          station.tell();
        }),
    }),
    defineCommand({
      ...common,
      name: 'untilGone',
      allowed: 'watcher',
      params: z.object({}),
      result: z.unknown(),
      run: (_, { connection }) =>
        new Promise((resolve) =>
          connection.gone.addEventListener('abort', () => {
            station.unwritten.push('gone');
            station.tell();
            resolve({});
          }),
        ),
    }),
    defineCommand({
      ...common,
      name: 'give',
      allowed: 'watcher',
      params: z.object({ name: text, bytes: z.int().default(0) }),
      result: z.unknown(),
      run: async ({ name, bytes }) =>
        new RevocableRaw(JSON.stringify({ name, fill: 'x'.repeat(bytes) }), () => {
          station.unwritten.push(name);
          station.tell();
        }),
    }),
    defineCommand({
      ...common,
      name: 'work',
      allowed: 'session',
      params: z.object({}),
      result: z.unknown(),
      run: async (_, { connection }) => {
        void connection.workers;
        return {};
      },
    }),
    defineCommand({
      ...common,
      name: 'queue.complete',
      allowed: 'session',
      params: z.object({ tasks: z.array(z.object({ task: text, fence: z.int() })) }),
      result: z.unknown(),
      run: async () => ({ tasks: [] }),
    }),
    defineCommand({
      ...common,
      name: 'lock.release',
      allowed: 'session',
      params: z.object({ grant: text }),
      result: z.unknown(),
      run: async () => {
        throw new Refusal('NOT_OWNER');
      },
    }),
    defineCommand({
      ...common,
      name: 'feed.subscribe',
      allowed: 'watcher',
      params: z.object({}),
      result: z.unknown(),
      run: async (_, { connection }) => ({
        subscription: connection.feed.subscribe({
          namespace: 'default',
          filter: { types: [], where: {} },
          at: { epoch: 'e1', offset: 0 },
        }),
      }),
    }),
    defineCommand({
      ...common,
      name: 'emit',
      allowed: 'watcher',
      params: z.object({ line: text }),
      result: z.unknown(),
      run: async ({ line }, { connection }) => {
        station.tails.get(connection.id)!.sink.write(Buffer.from(line), 1);
        return {};
      },
    }),
    defineCommand({
      ...common,
      name: 'feed.unsubscribe',
      allowed: 'watcher',
      params: z.object({}),
      result: z.unknown(),
      run: async (_, { connection }) => {
        connection.feed.unsubscribe('s1');
        return {};
      },
    }),
    defineCommand({
      ...common,
      name: 'feed.ack',
      allowed: 'watcher',
      params: z.object({ good: z.boolean() }),
      result: z.unknown(),
      run: async ({ good }) => {
        if (!good) throw new Refusal('NOT_FOUND');
        return {};
      },
    }),
  ];
}

function crash(how: string): unknown {
  if (how === 'now') throw new TypeError('boom');
  if (how === 'closed') return Promise.reject(new Error('Connection is closed.'));
  if (how === 'unsent')
    return Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
  if (how === 'late') return Promise.reject(new Error('Command timed out'));
  if (how === 'circle') {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    return Promise.resolve(circle);
  }
  return Promise.reject(how === 'text' ? 'boom' : new TypeError('boom'));
}

export function sessionRef(id: string, binding = 1, ttlMs = 15_000): SessionRef {
  return { id, agent: 'a', tenant: 'default', binding, ttlMs, graceMs: 5000 };
}

// biome-ignore lint/suspicious/noExplicitAny: lines of any shape
export type Line = any;

/** A client that keeps what it receives and can wait for it. */
export class Client {
  readonly ws: WebSocket;
  readonly lines: Line[] = [];
  readonly messages: string[] = [];
  closed: Promise<{ code: number; reason: string }>;
  #waiting: { fits: (line: Line) => boolean; resolve: (line: Line) => void }[] = [];
  #nextId = 1;

  constructor(url: string, options: ClientOptions = {}, protocols: string[] = ['signalbox.v1']) {
    this.ws = new WebSocket(url, protocols, options);
    this.ws.on('message', (data) => this.#take(data.toString()));
    this.ws.on('error', () => undefined);
    this.closed = once(this.ws, 'close').then(([code, reason]) => ({ code, reason: String(reason) }));
  }

  #take(message: string): void {
    this.messages.push(message);
    for (const text of message.split('\n')) {
      const line = JSON.parse(text) as Line;
      this.lines.push(line);
      const waiting = this.#waiting.filter(({ fits }) => fits(line));
      this.#waiting = this.#waiting.filter((one) => !waiting.includes(one));
      for (const { resolve } of waiting) resolve(line);
    }
  }

  /** The first line, past or to come, that fits. */
  line(fits: (line: Line) => boolean): Promise<Line> {
    const past = this.lines.find(fits);
    return past ? Promise.resolve(past) : new Promise((resolve) => this.#waiting.push({ fits, resolve }));
  }

  push(op: string): Promise<Line> {
    return this.line((line) => line.op === op);
  }

  reply(id: number): Promise<Line> {
    return this.line((line) => line.id === id);
  }

  send(...lines: (string | object)[]): void {
    this.ws.send(lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'));
  }

  call(op: string, params?: object): Promise<Line> {
    const id = this.#nextId++;
    this.send({ id, op, ...(params ? { params } : {}) });
    return this.reply(id);
  }

  async open(): Promise<this> {
    await this.push('hello');
    return this;
  }
}

const ending: (() => unknown)[] = [];
/** To be called by every test file: stations end after each test. */
export function useStations(): void {
  afterEach(async () => {
    for (const end of ending.splice(0).reverse()) await end();
  });
}

export async function station(settings: Record<string, unknown> = {}): Promise<Station> {
  const one = new Station(settings);
  await one.gateway.start();
  ending.push(() => one.gateway.stop());
  return one;
}

export async function client(at: Station, options: ClientOptions = {}): Promise<Client> {
  const one = new Client(at.url, options);
  ending.push(() => one.ws.terminate());
  return await one.open();
}

/** A socket that speaks the upgrade by hand and then whatever it is told. */
export class Wire {
  readonly socket: Socket;
  received = Buffer.alloc(0);
  readonly ended: Promise<void>;
  #waiting: (() => void)[] = [];

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('error', () => undefined);
    this.socket.on('data', (data) => {
      this.received = Buffer.concat([this.received, data]);
      for (const wake of this.#waiting.splice(0)) wake();
    });
    this.ended = new Promise((resolve) =>
      this.socket.once('close', () => {
        resolve();
        for (const wake of this.#waiting.splice(0)) wake();
      }),
    );
    ending.push(() => this.socket.destroy());
  }

  async until(met: (received: Buffer) => boolean): Promise<void> {
    while (!met(this.received)) {
      if (this.socket.destroyed) throw new Error(`closed; received ${this.received.toString('latin1')}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** The status and headers that answered an upgrade with these headers. */
  async upgrade(headers: Record<string, string> = {}, path = '/v1/ws'): Promise<string> {
    const all = {
      Host: '127.0.0.1',
      Connection: 'Upgrade',
      Upgrade: 'websocket',
      'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      ...headers,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
    this.socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    await this.until((received) => received.includes('\r\n\r\n'));
    const end = this.received.indexOf('\r\n\r\n') + 4;
    const head = this.received.toString('latin1', 0, end);
    if (head.startsWith('HTTP/1.1 101')) this.received = this.received.subarray(end);
    return head;
  }

  /** The code of the close frame it was sent; 1006 if the socket went without one. */
  async closeCode(): Promise<number> {
    await this.ended;
    let at = 0;
    while (at + 2 <= this.received.length) {
      const opcode = this.received[at]! & 15;
      let length = this.received[at + 1]! & 127;
      let start = at + 2;
      if (length === 126) {
        length = this.received.readUInt16BE(start);
        start += 2;
      } else if (length === 127) {
        length = Number(this.received.readBigUInt64BE(start));
        start += 8;
      }
      if (opcode === 8) return length >= 2 ? this.received.readUInt16BE(start) : 1005;
      at = start + length;
    }
    return 1006;
  }
}

export interface FrameOptions {
  readonly first?: number;
  readonly masked?: boolean;
}

/** A client's frame, right or wrong as asked. */
export function frame(payload: string | Buffer, { first = 0x81, masked = true }: FrameOptions = {}): Buffer {
  const data = Buffer.from(payload as string);
  const long = data.length > 125;
  const header = Buffer.alloc(long ? 4 : 2);
  header[0] = first;
  header[1] = (masked ? 0x80 : 0) | (long ? 126 : data.length);
  if (long) header.writeUInt16BE(data.length, 2);
  if (!masked) return Buffer.concat([header, data]);
  const mask = Buffer.from([1, 2, 3, 4]);
  return Buffer.concat([header, mask, data.map((byte, i) => byte ^ mask[i % 4]!)]);
}

export type { ConnectionPort };
