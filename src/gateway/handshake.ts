import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Config } from '../config.js';
import { protocolName, wsPath } from '../protocol/frame.js';
import type { TokenCheck } from './token.js';

/** Why an upgrade is refused, as HTTP says it. */
export interface Refused {
  readonly status: 400 | 401 | 403 | 404 | 421 | 429 | 503;
  readonly reason: string;
  readonly retryAfterSeconds?: number;
}

/** What the daemon knows beside its settings. */
export interface Occupancy {
  readonly draining: boolean;
  readonly connections: number;
  connectionsOf(address: string): number;
}

export type Verdict = { readonly refused: Refused } | { readonly refused?: never; readonly authenticated: boolean };

export const isLoopback = (address: string): boolean => address === '::1' || address.startsWith('127.');

/** The address of the peer; IPv4 in its own form, also on a socket that speaks both. */
export const addressOf = (remote: string | undefined): string => (remote ?? '').replace(/^::ffff:(?=\d+\.)/, '');

/**
 * Everything that is asked of a client before it is let in, in this order; what comes first can be answered without
 * telling a stranger anything. A page in a browser is kept out twice: by the Host it must use if it was led here by
 * a name of its own (DNS rebinding), and by the Origin it cannot leave out. Neither asks anything of other clients.
 */
export class Handshake {
  readonly #config: Config['gateway'];
  readonly #token: TokenCheck;

  constructor(config: Config['gateway'], token: TokenCheck) {
    this.#config = config;
    this.#token = token;
  }

  check(request: IncomingMessage, state: Occupancy): Verdict {
    const refused =
      this.#path(request) ??
      this.#host(request) ??
      this.#origin(request) ??
      this.#room(request, state) ??
      this.#protocol(request);
    return refused ? { refused } : this.#credentials(request);
  }

  #path({ url = '' }: IncomingMessage): Refused | undefined {
    if (url.split('?', 1)[0] === wsPath) return undefined;
    return { status: 404, reason: `WebSockets are at ${wsPath}` };
  }

  #host({ headers, socket }: IncomingMessage): Refused | undefined {
    const { allowedHosts, host } = this.#config;
    const name = hostName(headers.host ?? '');
    // An address cannot be rebound: who names the one the connection came in on means this daemon.
    if (isLoopbackName(name) || name === host || name === addressOf(socket.localAddress)) return undefined;
    if (allowedHosts.includes('*') || allowedHosts.some((one) => one.toLowerCase() === name)) return undefined;
    return { status: 421, reason: 'this host is not served here (gateway.allowedHosts)' };
  }

  #origin({ headers }: IncomingMessage): Refused | undefined {
    const { origin, host } = headers;
    if (origin === undefined || this.#config.allowedOrigins.includes(origin)) return undefined;
    const same = host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
    return same ? undefined : { status: 403, reason: 'this origin may not connect (gateway.allowedOrigins)' };
  }

  #room({ socket }: IncomingMessage, state: Occupancy): Refused | undefined {
    const { connectionsMax, connectionsPerAddressMax, drainMs } = this.#config;
    if (state.connections >= connectionsMax) {
      return { status: 503, reason: 'too many connections', retryAfterSeconds: 5 };
    }
    const address = addressOf(socket.remoteAddress);
    if (!isLoopback(address) && state.connectionsOf(address) >= connectionsPerAddressMax) {
      return { status: 429, reason: 'too many connections from this address', retryAfterSeconds: 5 };
    }
    if (!state.draining) return undefined;
    return {
      status: 503,
      reason: 'this daemon is stopping',
      retryAfterSeconds: Math.max(1, Math.ceil(drainMs / 1000)),
    };
  }

  #protocol({ headers }: IncomingMessage): Refused | undefined {
    const offered = headers['sec-websocket-protocol'];
    if (offered === undefined || offered.split(',').some((one) => one.trim() === protocolName)) return undefined;
    return { status: 400, reason: `the only subprotocol is ${protocolName}` };
  }

  #credentials({ headers, url = '' }: IncomingMessage): Verdict {
    // It would end in the log of every proxy on the way.
    if (/[?&](access_?token|token|bearer|auth|authorization|api_?key)=/i.test(url)) {
      return { refused: { status: 400, reason: 'credentials in the query are refused; send Authorization: Bearer' } };
    }
    if (!this.#token.required) return { authenticated: true };
    const { authorization } = headers;
    if (authorization === undefined) return { authenticated: false };
    const [, token] = /^Bearer +(\S+) *$/i.exec(authorization) ?? [];
    if (token !== undefined && this.#token.accepts(token)) return { authenticated: true };
    return { refused: { status: 401, reason: 'the token is not right' } };
  }
}

/** `localhost:7171` is `localhost`, `[::1]:7171` is `::1`. */
function hostName(host: string): string {
  const [, bracketed, plain] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host) ?? [];
  return (bracketed ?? plain ?? '').toLowerCase();
}

function isLoopbackName(name: string): boolean {
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return isIP(name) !== 0 && isLoopback(name);
}
