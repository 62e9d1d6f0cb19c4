import { createServer, type IncomingMessage, type RequestListener, type Server, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type ServerOptions, WebSocketServer } from 'ws';
import type { Config } from '../config.js';
import type { Service } from '../lib/service.js';
import type { AnyCommand } from '../protocol/command.js';
import { linesMax, protocolName, pushLine } from '../protocol/frame.js';
import { depthMax } from '../protocol/raw-json.js';
import { bounds } from './bounds.js';
import { Connection } from './connection.js';
import { drain, terminateAll } from './drain.js';
import { Flusher } from './flusher.js';
import { addressOf, Handshake, isLoopback, type Occupancy, type Refused } from './handshake.js';
import type { GatewayHooks, Shared } from './hooks.js';
import { Pipeline } from './pipeline.js';
import { probeConnection, reportFault } from './probes.js';
import { Registry } from './registry.js';
import { TokenCheck } from './token.js';
import { Wheel } from './wheel.js';

export interface GatewayOptions {
  readonly config: Config;
  readonly commands: ReadonlyMap<string, AnyCommand>;
  readonly hooks: GatewayHooks;
  /** Answers every HTTP request that is no upgrade. */
  readonly http: RequestListener;
}

/** The HTTP server, the WebSocket endpoint on it, and what all connections share. */
export class Gateway implements Service, Occupancy {
  readonly name = 'gateway';
  readonly registry = new Registry();
  readonly #config: Config['gateway'];
  readonly #shared: Shared;
  readonly #handshake: Handshake;
  readonly #http: Server;
  readonly #wss: WebSocketServer;
  readonly #byAddress = new Map<string, number>();
  #draining: Promise<void> | undefined;

  constructor({ config, commands, hooks, http }: GatewayOptions) {
    this.#config = config.gateway;
    const token = new TokenCheck(config.gateway.token);
    this.#shared = {
      config,
      hooks,
      pipeline: new Pipeline(commands),
      registry: this.registry,
      wheel: new Wheel((error) => reportFault('a date of a connection', error)),
      flusher: new Flusher(),
      token,
      hello: helloLine(config, token.required),
    };
    this.#handshake = new Handshake(config.gateway, token);
    this.#http = createServer({ headersTimeout: 10_000, requestTimeout: 30_000 }, http);
    // Above the ceiling, so that whoever is too many can still be told so.
    this.#http.maxConnections = config.gateway.connectionsMax + 256;
    this.#http.on('upgrade', (request, socket, head) => this.#upgrade(request, socket as Socket, head));
    this.#wss = new WebSocketServer(socketOptions(config));
  }

  start(): Promise<void> {
    if (this.#http.listening) return Promise.resolve();
    const { host, port } = this.#config;
    if (!isLoopback(host) && host !== 'localhost' && !this.#shared.token.required) {
      return Promise.reject(
        new Error(`gateway.host ${host} is not loopback: set gateway.token, or listen on 127.0.0.1`),
      );
    }
    return new Promise((resolve, reject) => {
      this.#http.once('error', reject);
      this.#http.listen({ host, port, backlog: 1024 }, () => {
        this.#http.off('error', reject);
        this.#http.on('error', (error) => reportFault('the HTTP server', error));
        resolve();
      });
    });
  }

  /** Where it listens; with port 0 the one that was found. */
  address(): { readonly host: string; readonly port: number } {
    const { address, port } = this.#http.address() as AddressInfo;
    return { host: address, port };
  }

  /**
   * Lets nobody in any more and sends everybody away over `windowMs`; resolves when all are gone. HTTP is answered
   * until `stop`.
   */
  drain(windowMs: number): Promise<void> {
    this.#draining ??= drain(this.registry, windowMs);
    return this.#draining;
  }

  async stop(): Promise<void> {
    this.#draining ??= Promise.resolve();
    await terminateAll(this.registry);
    this.#shared.wheel.stop();
    this.#http.closeAllConnections();
    if (this.#http.listening) await new Promise((resolve) => this.#http.close(resolve));
  }

  // ---- what the handshake asks

  get draining(): boolean {
    return this.#draining !== undefined;
  }

  get connections(): number {
    return this.registry.size;
  }

  connectionsOf(address: string): number {
    return this.#byAddress.get(address) ?? 0;
  }

  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    // Until ws has the socket, an error of it is nobody's.
    socket.on('error', () => socket.destroy());
    const address = addressOf(socket.remoteAddress);
    try {
      const { refused, ...verdict } = this.#handshake.check(request, this);
      if (refused) this.#refuse(socket, address, refused);
      else {
        const authenticated = 'authenticated' in verdict && verdict.authenticated;
        this.#wss.handleUpgrade(request, socket, head, (ws) => {
          new Connection({ ws, socket, address, authenticated }, this.#shared);
          this.#count(socket, address);
        });
      }
    } catch (error) {
      reportFault('an upgrade', error);
      socket.destroy();
    }
  }

  #count(socket: Socket, address: string): void {
    this.#byAddress.set(address, this.connectionsOf(address) + 1);
    socket.once('close', () => {
      const left = this.connectionsOf(address) - 1;
      if (left > 0) this.#byAddress.set(address, left);
      else this.#byAddress.delete(address);
    });
  }

  #refuse(socket: Socket, address: string, { status, reason, retryAfterSeconds }: Refused): void {
    probeConnection({ kind: 'refused', status, reason, address });
    const headers = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'Connection: close',
      'Content-Type: text/plain; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(reason) + 1}`,
    ];
    if (retryAfterSeconds !== undefined) headers.push(`Retry-After: ${retryAfterSeconds}`);
    if (status === 401) headers.push('WWW-Authenticate: Bearer');
    socket.once('finish', () => socket.destroy());
    socket.end(`${headers.join('\r\n')}\r\n\r\n${reason}\n`);
  }
}

function socketOptions({ gateway }: Config): ServerOptions {
  return {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    skipUTF8Validation: false,
    maxPayload: gateway.lineBytes,
    // A message in crumbs costs more memory than its bytes.
    maxFragments: 1024,
    maxBufferedChunks: 8192,
    handleProtocols: (offered) => (offered.has(protocolName) ? protocolName : false),
  } as ServerOptions;
}

function helloLine({ gateway }: Config, authRequired: boolean): string {
  return pushLine('hello', {
    protocol: protocolName,
    auth: authRequired ? 'required' : 'none',
    heartbeatMs: gateway.heartbeatMs,
    limits: { lineBytes: gateway.lineBytes, lines: linesMax, depth: depthMax, requests: bounds.requestsMax },
  });
}
