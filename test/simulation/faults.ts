import { existsSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';

export type Direction = 'up' | 'down';

interface Link {
  readonly near: Socket;
  readonly far: Socket;
}

/** One direction: chunks leave in the order they came, however the delay changes meanwhile. */
class Lane {
  readonly #to: Socket;
  readonly #queue: { readonly run: () => void; readonly dueAt: number }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(to: Socket) {
    this.#to = to;
  }

  pass(bytes: Buffer, delayMs: number): void {
    this.later(() => void (this.#to.destroyed || this.#to.write(bytes)), delayMs);
  }

  later(run: () => void, delayMs: number): void {
    if (delayMs === 0 && this.#queue.length === 0) run();
    else {
      this.#queue.push({ run, dueAt: performance.now() + delayMs });
      this.#arm();
    }
  }

  #arm(): void {
    const [first] = this.#queue;
    if (!first || this.#timer) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#queue.shift()?.run();
        this.#arm();
      },
      Math.max(0, first.dueAt - performance.now()),
    );
  }
}

/** Where a proxy listens or leads to: a Unix socket, or a port of this machine. */
export type Place = string | number;

/**
 * A link that fails on command, for the side between agent and daemon and for the one between daemon and Redis. `up` is
 * towards the server. What is stalled is not lost: as with real TCP it arrives when the link heals, or never if it is cut.
 */
export class FaultyLink {
  readonly #server: Server;
  readonly #links = new Set<Link>();
  readonly #stalled = new Set<Direction>();
  /** Where new connections lead. */
  target: Place;
  #delayMs = 0;
  #swallow = 0;
  #refuse = false;

  private constructor(target: Place) {
    this.target = target;
    this.#server = createServer((near) => this.#join(near));
  }

  static async open(target: Place, listen: Place = 0): Promise<FaultyLink> {
    const link = new FaultyLink(target);
    if (typeof listen === 'string' && existsSync(listen)) rmSync(listen);
    await new Promise<void>((resolve, reject) => {
      link.#server.once('error', reject);
      link.#server.listen(typeof listen === 'string' ? { path: listen } : { port: listen, host: '127.0.0.1' }, () =>
        resolve(),
      );
    });
    return link;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address ? address.port : 0;
  }

  get count(): number {
    return this.#links.size;
  }

  /** Ends every connection without a word; new ones are taken at once. */
  cut(): void {
    for (const { near, far } of [...this.#links]) {
      near.destroy();
      far.destroy();
    }
  }

  /** Open connections are dead from now on, and nobody is told: not even `heal` brings them back. New ones are fine. */
  lose(): void {
    for (const { near, far } of this.#links) {
      for (const socket of [near, far]) {
        socket.removeAllListeners('data');
        socket.removeAllListeners('end');
        // Read and thrown away: each side believes that the other hears it.
        socket.on('data', () => undefined);
      }
    }
  }

  /** Connections are refused until `heal`. */
  refuse(): void {
    this.#refuse = true;
    this.cut();
  }

  /** Bytes of a direction stay where they are, new connections included. Both: a black hole. */
  stall(...directions: Direction[]): void {
    for (const direction of directions) this.#stalled.add(direction);
    for (const link of this.#links) this.#hold(link);
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** The next reply is thrown away and its connection cut: the request was carried out and nobody was told. */
  swallowReply(count = 1): void {
    this.#swallow += count;
  }

  heal(): void {
    this.#stalled.clear();
    this.#delayMs = 0;
    this.#swallow = 0;
    this.#refuse = false;
    for (const { near, far } of this.#links) {
      near.resume();
      far.resume();
    }
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(near: Socket): void {
    if (this.#refuse) {
      near.destroy();
      return;
    }
    const far =
      typeof this.target === 'string'
        ? connect({ path: this.target })
        : connect({ port: this.target, host: '127.0.0.1' });
    const link: Link = { near, far };
    this.#links.add(link);
    near.setNoDelay(true);
    far.setNoDelay(true);
    const end = (): void => {
      near.destroy();
      far.destroy();
      this.#links.delete(link);
    };
    for (const socket of [near, far]) {
      socket.on('error', end);
      socket.on('close', end);
    }
    const up = new Lane(far);
    const down = new Lane(near);
    near.on('end', () => up.later(() => far.end(), this.#delayMs));
    far.on('end', () => down.later(() => near.end(), this.#delayMs));
    near.on('data', (bytes) => up.pass(bytes, this.#delayMs));
    far.on('data', (bytes) => {
      if (this.#swallow === 0) {
        down.pass(bytes, this.#delayMs);
        return;
      }
      this.#swallow--;
      end();
    });
    this.#hold(link);
  }

  #hold({ near, far }: Link): void {
    if (this.#stalled.has('up')) near.pause();
    if (this.#stalled.has('down')) far.pause();
  }
}
