import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A link to a daemon that can be broken: cut at once, made deaf, or cut in place of the next answer. */
export class BrokenLink {
  readonly url: string;
  private readonly server: Server;
  private readonly pairs = new Set<{ client: Socket; daemon: Socket }>();
  private isSilent = false;
  private isDeaf = false;
  private swallows = 0;
  connections = 0;

  private constructor(server: Server) {
    this.server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/ws`;
  }

  static async to(url: string): Promise<BrokenLink> {
    const { hostname, port } = new URL(url);
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const link = new BrokenLink(server);
    server.on('connection', (client) => link.join(client, connect(Number(port), hostname)));
    return link;
  }

  /** Breaks what there is; new connections pass. */
  cut(): void {
    for (const { client, daemon } of this.pairs) {
      client.destroy();
      daemon.destroy();
    }
  }

  /** Sockets stay open, and nothing gets through in either direction; from `heal` on new connections pass. */
  silence(): void {
    this.isSilent = true;
  }

  /** The client is heard and hears nothing, until `heal`. */
  deafen(): void {
    this.isDeaf = true;
  }

  heal(): void {
    this.isSilent = false;
    this.isDeaf = false;
    this.cut();
  }

  /** What the client sends next reaches the daemon; the first byte of an answer cuts the link instead of passing. */
  swallowNext(): void {
    this.swallows++;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private join(client: Socket, daemon: Socket): void {
    const pair = { client, daemon };
    this.pairs.add(pair);
    this.connections++;
    let isSwallowing = false;
    client.on('data', (bytes) => {
      if (this.isSilent) return;
      if (this.swallows > 0 && isText(bytes)) {
        this.swallows--;
        isSwallowing = true;
      }
      daemon.write(bytes);
    });
    daemon.on('data', (bytes) => {
      if (this.isSilent || this.isDeaf) return;
      // Pings and pongs of the socket are no answer.
      if (isSwallowing && isText(bytes)) {
        client.destroy();
        daemon.destroy();
      } else client.write(bytes);
    });
    const end = (): void => {
      this.pairs.delete(pair);
      client.destroy();
      daemon.destroy();
    };
    for (const socket of [client, daemon]) socket.on('error', () => {}).on('close', end);
  }
}

/** A WebSocket text frame begins here. */
const isText = (bytes: Buffer): boolean => bytes[0] === 0x81;
