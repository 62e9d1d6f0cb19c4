import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A link that can be cut: the watcher connects through it, so that its socket breaks as a network would break it. */
export class Cut {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #down = false;

  constructor(host: string, port: number) {
    this.#server = createServer((near) => {
      if (this.#down) return void near.destroy();
      const far = connect({ host, port });
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        from.on('error', () => undefined);
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
        from.pipe(to);
      }
    });
  }

  async start(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  /** Breaks every connection and lets none in until `mend`. */
  break(): void {
    this.#down = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#down = false;
  }

  stop(): void {
    this.break();
    this.#server.close();
  }
}
