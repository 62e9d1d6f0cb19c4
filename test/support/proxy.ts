import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type Direction = 'up' | 'down';

/** Where the proxy leads: a port of this machine or a Unix socket. */
export type Target = number | string;

export interface FaultProxy {
  readonly port: number;
  /** Links that are open now. */
  readonly links: number;
  /** Closes every link towards both ends, without a word of the protocol. New ones are let through. */
  cut(): void;
  /** The same by RST, as after a crash of the machine in between. */
  reset(): void;
  /** New links are closed as soon as they come, until `heal`. */
  refuse(): void;
  /** What goes this way waits, the end of the connection too: half a cut link. `up` is from the client to the target. */
  stall(direction: Direction): void;
  /** Everything is lost both ways and nobody is told: an unplugged cable. Open links stay lost after `heal`. */
  blackHole(): void;
  /** All as before. What was stalled goes on. */
  heal(): void;
  /** Every chunk, both ways, takes this much longer. */
  delay(ms: number): void;
  /** The next request that contains `marker` reaches the target; its reply does not come back, the link ends instead. */
  swallowReply(marker: string): Promise<void>;
  /** The next request that contains `marker` never gets there, nor does what was sent with it: the link ends instead. */
  swallowRequest(marker: string): Promise<void>;
  /** The next link ends after so many bytes in this direction. */
  cutAfter(bytes: number, direction: Direction): void;
  close(): Promise<void>;
}

export type { FaultProxy as Proxy };

/** One direction of one link. `null` in the queue is the end. */
class Way {
  mode: 'flow' | 'stall' | 'hole' = 'flow';
  delayMs = 0;
  left = Number.POSITIVE_INFINITY;
  seen: ((bytes: Buffer) => boolean) | undefined;
  readonly #to: Socket;
  readonly #end: () => void;
  #held: (Buffer | null)[] = [];
  readonly #late: { readonly item: Buffer | null; readonly dueAt: number }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(from: Socket, to: Socket, end: () => void) {
    this.#to = to;
    this.#end = end;
    from.on('data', (bytes: Buffer) => this.#take(bytes));
    from.on('close', () => this.#take(null));
    from.on('error', () => undefined);
  }

  #take(item: Buffer | null): void {
    if (this.mode === 'hole') return;
    if (this.mode === 'stall') this.#held.push(item);
    else if (this.delayMs === 0 && this.#late.length === 0) this.#give(item);
    else {
      this.#late.push({ item, dueAt: performance.now() + this.delayMs });
      this.#arm();
    }
  }

  /** What was delayed leaves in the order in which it came, also when the delay is changed meanwhile. */
  #arm(): void {
    const [first] = this.#late;
    if (!first || this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#late.shift();
      this.#give(first.item);
      this.#arm();
    }, first.dueAt - performance.now());
  }

  #give(item: Buffer | null): void {
    if (item === null) {
      this.#to.destroy();
      return;
    }
    if (this.seen?.(item)) return;
    const part = item.subarray(0, Math.min(item.length, this.left));
    this.left -= part.length;
    this.#to.write(part);
    if (this.left === 0) setTimeout(this.#end, 5); // what was let through gets there first
  }

  heal(): void {
    if (this.mode === 'hole') return;
    this.mode = 'flow';
    for (const item of this.#held.splice(0)) this.#take(item);
  }
}

interface Link {
  readonly sockets: readonly Socket[];
  readonly up: Way;
  readonly down: Way;
}

/** A TCP link that can be hurt in every way a network hurts one. Listens on a free port of 127.0.0.1. */
export async function startProxy(target: Target): Promise<FaultProxy> {
  const links = new Set<Link>();
  let refusing = false;
  let delayMs = 0;
  let stalled: Direction[] = [];
  let limit: { bytes: number; direction: Direction } | undefined;
  let swallow: { marker: string; what: 'request' | 'reply'; done: () => void } | undefined;

  const server = createServer((client) => {
    if (refusing) {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    const upstream = typeof target === 'number' ? connect(target, '127.0.0.1') : connect(target);
    const sockets = [client, upstream];
    const end = (): void => {
      for (const socket of sockets) socket.destroy();
    };
    const link: Link = { sockets, up: new Way(client, upstream, end), down: new Way(upstream, client, end) };
    for (const way of [link.up, link.down]) way.delayMs = delayMs;
    for (const direction of stalled) link[direction].mode = 'stall';
    if (limit) link[limit.direction].left = limit.bytes;
    limit = undefined;
    link.up.seen = (bytes) => {
      if (!swallow || !bytes.includes(swallow.marker)) return false;
      const { what, done } = swallow;
      swallow = undefined;
      if (what === 'request') {
        end();
        done();
        return true;
      }
      link.down.seen = () => {
        end();
        done();
        return true;
      };
      // Whoever asked may have hung up first, on a machine with much to do: the reply is lost all the same.
      client.once('close', done);
      return false;
    };
    links.add(link);
    for (const socket of sockets) {
      // Half a cut link leaves one end open: the link is gone with the second.
      socket.setNoDelay(true).once('close', () => sockets.every(({ closed }) => closed) && links.delete(link));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  const each = (run: (link: Link) => void): void => {
    for (const link of [...links]) run(link);
  };
  return {
    port: (server.address() as AddressInfo).port,
    get links() {
      return links.size;
    },
    cut: () => each(({ sockets }) => sockets.forEach((socket) => void socket.destroy())),
    reset: () => each(({ sockets }) => sockets.forEach((socket) => void socket.resetAndDestroy())),
    refuse: () => {
      refusing = true;
    },
    stall: (direction) => {
      stalled.push(direction);
      each((link) => {
        link[direction].mode = 'stall';
      });
    },
    blackHole: () => {
      each(({ up, down }) => {
        up.mode = 'hole';
        down.mode = 'hole';
      });
    },
    heal: () => {
      refusing = false;
      stalled = [];
      each(({ up, down }) => {
        up.heal();
        down.heal();
      });
    },
    delay: (ms) => {
      delayMs = ms;
      each(({ up, down }) => {
        up.delayMs = ms;
        down.delayMs = ms;
      });
    },
    swallowReply: (marker) =>
      new Promise((done) => {
        swallow = { marker, what: 'reply', done };
      }),
    swallowRequest: (marker) =>
      new Promise((done) => {
        swallow = { marker, what: 'request', done };
      }),
    cutAfter: (bytes, direction) => {
      limit = { bytes, direction };
    },
    close: () => {
      each(({ sockets }) => sockets.forEach((socket) => void socket.destroy()));
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
