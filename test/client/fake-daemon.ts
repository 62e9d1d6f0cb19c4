import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

// biome-ignore lint/suspicious/noExplicitAny: tests look into frames of any shape
export type Any = any;

export interface Asked {
  readonly peer: Peer;
  readonly id: number;
  readonly op: string;
  readonly params: Any;
  /** Requests of one message have one number. */
  readonly message: number;
}

/** What answers an op: the `ok`, `{ error }`, or `silence` for no answer at all. A promise may answer later. */
export type Answer = (asked: Asked) => Any;
export const silence = Symbol('silence');
export const refuse = (code: string, extra: object = {}): Any => ({
  error: { code, message: code, retry: false, ...extra },
});

/** One connection of the client, as its daemon sees it. */
export class Peer {
  readonly number: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  private readonly ws: WebSocket;

  constructor(number: number, ws: WebSocket, headers: NodeJS.Dict<string | string[]>) {
    this.number = number;
    this.ws = ws;
    this.headers = headers;
  }

  /** Writes one message of as many lines. */
  send(...lines: object[]): void {
    if (lines.length > 0) this.ws.send(lines.map((line) => JSON.stringify(line)).join('\n'));
  }

  text(text: string): void {
    this.ws.send(text);
  }

  close(code: number, reason = ''): void {
    this.ws.close(code, reason);
  }

  /** No goodbye: what a broken link looks like. */
  cut(): void {
    this.ws.terminate();
  }

  /** Takes bytes and answers nothing more, pings included. */
  freeze(): void {
    this.ws.pause();
  }

  get buffered(): number {
    return this.ws.bufferedAmount;
  }

  get gone(): Promise<unknown> {
    return this.ws.readyState === this.ws.CLOSED ? Promise.resolve() : once(this.ws, 'close');
  }
}

const task = (item: Any, state: string): Any => ({ task: item.task, state });

/**
 * The other end of the wire, saying exactly what a test tells it to. It keeps no state of queues or sessions: what the
 * client must do under a fault shows in the frames it sends, and which frames may come is the contract's business.
 */
export class FakeDaemon {
  readonly peers: Peer[] = [];
  readonly log: Asked[] = [];
  /** Tests put their own answers here. */
  readonly on: Record<string, Answer> = {};
  ttlMs = 15_000;
  position = 'e1:100';
  holdings: Any[] = [];
  hello: object = { op: 'hello', protocol: 'signalbox.v1', auth: 'none', heartbeatMs: 25_000, limits: {} };
  private readonly server: WebSocketServer;
  private readonly waiters = new Set<() => void>();
  private readonly taken = new Set<Asked>();
  private messages = 0;
  private subscriptions = 0;

  private constructor(server: WebSocketServer) {
    this.server = server;
    server.on('connection', (ws, request) => {
      ws.on('error', () => {});
      const peer = new Peer(this.peers.length, ws, request.headers);
      this.peers.push(peer);
      ws.on('message', (data) => void this.onMessage(peer, data.toString()));
      peer.send(this.hello);
      this.wake();
    });
  }

  static async start(port = 0): Promise<FakeDaemon> {
    const server = new WebSocketServer({ port, host: '127.0.0.1', path: '/v1/ws' });
    await once(server, 'listening');
    return new FakeDaemon(server);
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}/v1/ws`;
  }

  /** The connection that is there now. */
  get peer(): Peer {
    return this.peers.at(-1)!;
  }

  async stop(): Promise<void> {
    for (const ws of this.server.clients) ws.terminate();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** The nth connection, now or when it comes. */
  async connection(number: number): Promise<Peer> {
    await this.when(() => this.peers.length > number);
    return this.peers[number]!;
  }

  /** The next request of this op that no test line has taken yet, now or when it comes. */
  async asked(op: string, matches: (asked: Asked) => boolean = () => true): Promise<Asked> {
    const find = (): Asked | undefined =>
      this.log.find((each) => each.op === op && !this.taken.has(each) && matches(each));
    await this.when(() => find() !== undefined);
    const found = find()!;
    this.taken.add(found);
    return found;
  }

  all(op: string): Asked[] {
    return this.log.filter((each) => each.op === op);
  }

  /** Resolves as soon as `is` holds; looked at after every frame and connection. */
  async when(is: () => boolean, limitMs = 10_000): Promise<void> {
    if (is()) return;
    await new Promise<void>((resolve, reject) => {
      const look = (): void => {
        if (!is()) return;
        done();
        resolve();
      };
      const timer = setTimeout(() => {
        done();
        reject(new Error(`not within ${limitMs} ms: ${is}`));
      }, limitMs);
      const done = (): void => {
        clearTimeout(timer);
        this.waiters.delete(look);
      };
      this.waiters.add(look);
    });
  }

  private wake(): void {
    for (const look of [...this.waiters]) look();
  }

  private async onMessage(peer: Peer, text: string): Promise<void> {
    const message = this.messages++;
    const lines = text.split('\n').map((line) => JSON.parse(line));
    const replies: object[] = [];
    for (const { id, op, params } of lines) {
      const asked: Asked = { peer, id, op, params, message };
      this.log.push(asked);
      const answer = (this.on[op] ?? this.usual[op])?.(asked) ?? refuse('UNKNOWN_OP');
      if (answer === silence) continue;
      if (answer instanceof Promise) void answer.then((later) => later === silence || peer.send(reply(id, later)));
      else replies.push(reply(id, answer));
    }
    peer.send(...replies);
    this.wake();
  }

  /** What a daemon says on a good day. */
  private readonly usual: Record<string, Answer> = {
    'session.open': ({ params }) => ({
      session: params.resume?.session ?? `s${this.all('session.open').length}`,
      key: params.resume?.key ?? 'k1',
      ttlMs: this.ttlMs,
      graceMs: 5000,
      resumed: params.resume !== undefined,
      position: this.position,
      holdings: this.holdings,
    }),
    'session.close': () => ({ released: 0 }),
    ping: ({ params }) => ({ data: params.data, serverAt: '2026-01-01T00:00:00Z', epoch: 'e1' }),
    'lease.renew': ({ params }) => ({ leases: params.leases.map(() => ({ endsAt: '2026-01-01T00:00:00Z' })) }),
    'queue.work': ({ params }) => ({ worker: params.worker }),
    'queue.credit': ({ params }) => ({ credit: params.credit }),
    'queue.enqueue': ({ params }) => ({
      tasks: params.tasks.map((item: Any) => task(item, 'ready')),
      pressure: { level: 0 },
    }),
    'queue.complete': ({ params }) => ({ tasks: params.tasks.map((item: Any) => task(item, 'completed')) }),
    'queue.fail': ({ params }) => ({ tasks: params.tasks.map((item: Any) => task(item, 'scheduled')) }),
    'queue.release': ({ params }) => ({ tasks: params.tasks.map((item: Any) => task(item, 'ready')) }),
    'queue.progress': () => ({}),
    'feed.subscribe': ({ params }) => ({
      subscription: `sub${++this.subscriptions}`,
      from: typeof params.from === 'string' && params.from.includes(':') ? params.from : this.position,
      head: this.position,
      missed: 0,
    }),
    'feed.unsubscribe': () => ({}),
    'feed.publish': ({ params }) => ({ events: params.events.map(() => ({ position: this.position })) }),
  };
}

const reply = (id: number, answer: Any): object => (answer.error ? { id, error: answer.error } : { id, ok: answer });

/** A task as it is pushed. */
export const pushed = (name: string, fence: number, extra: object = {}): object => ({
  task: name,
  queue: 'q',
  payload: { n: fence },
  attempt: 1,
  maxAttempts: 3,
  fence,
  ...extra,
});

export const event = (offset: number, type = 'note.made', data: object = {}): object => ({
  op: 'event',
  offset,
  event: { id: `e1:${offset}`, source: 'test', type, subject: 's', time: '2026-01-01T00:00:00Z', data },
});

export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: Error): void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
