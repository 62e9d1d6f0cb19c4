import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Config } from '../config.js';

const addressOf = (remote: string | undefined): string => (remote ?? '').replace(/^::ffff:(?=\d+\.)/, '');

/**
 * The rule of the WebSocket handshake for plain HTTP: a page in a browser that was led here by a name of its own (DNS
 * rebinding) must not read what the daemon says of itself.
 */
export function isServedHost({ headers, socket }: IncomingMessage, { allowedHosts, host }: Config['gateway']): boolean {
  const [, bracketed, plain] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(headers.host ?? '') ?? [];
  const name = (bracketed ?? plain ?? '').toLowerCase();
  if (name === 'localhost' || name.endsWith('.localhost') || name === host) return true;
  if (isIP(name) !== 0 && (name === '::1' || name.startsWith('127.'))) return true;
  // An address cannot be rebound: who names the one the connection came in on means this daemon.
  if (name !== '' && name === addressOf(socket.localAddress)) return true;
  return allowedHosts.includes('*') || allowedHosts.some((one) => one.toLowerCase() === name);
}
