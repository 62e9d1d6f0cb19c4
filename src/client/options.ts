import { wsPath } from '../protocol/frame.js';
import type { Closed } from './errors.js';

export type Status =
  | { readonly state: 'open'; readonly resumed: boolean }
  | { readonly state: 'reconnecting'; readonly code: number; readonly reason: string; readonly delayMs: number }
  | { readonly state: 'closed'; readonly closed: Closed };

export interface Pressure {
  readonly queue: string;
  readonly level: number;
  readonly delayMs?: number;
}

export interface ConnectOptions {
  /** Where the daemon listens, `ws://host:port`; $SIGNALBOX_URL, or port 7171 of this machine. Of several, the next one is tried when one cannot be reached. */
  url?: string | readonly string[];
  /** Name of this agent. Without one there is no session: such a connection may read and subscribe, and owns nothing. */
  agent?: string;
  namespace?: string;
  tenant?: string;
  ttlMs?: number;
  token?: string;
  labels?: Record<string, string>;
  /** Goes on with a session of an earlier connection (`sb.identity`). */
  resume?: { session: string; key: string };
  /** Aborts the connecting; later it closes the client at once. */
  signal?: AbortSignal;
  /** How long `connect` itself may take, all its tries together. */
  connectTimeoutMs?: number;
  /** How long a call waits for its answer, reconnects included; a call with `waitMs` waits that much longer. */
  timeoutMs?: number;
  backoff?: { baseMs?: number; capMs?: number };
  /** How many calls, and bytes of them, may be unanswered; beyond, a call is refused with LIMIT. */
  pendingMax?: number;
  pendingBytesMax?: number;
  /** How many bytes may sit in the socket before further lines wait. */
  sendBytesMax?: number;
  /** How many items a slow subscription may have in store before the feed is halted. */
  feedBuffer?: number;
  onStatus?: (status: Status) => void;
  /** What has no caller to be told: a listener that threw, a malformed line. A process warning by default. */
  onError?: (error: Error) => void;
  onPressure?: (pressure: Pressure) => void;
}

const defaults = {
  connectTimeoutMs: 10_000,
  timeoutMs: 10_000,
  pendingMax: 100_000,
  pendingBytesMax: 64 * 1024 * 1024,
  sendBytesMax: 1024 * 1024,
  feedBuffer: 1024,
  onStatus: (_status: Status): void => {},
  onError: (error: Error): void => process.emitWarning(error),
  onPressure: (_pressure: Pressure): void => {},
};

export type Settings = Omit<ConnectOptions, keyof typeof defaults | 'backoff' | 'url'> &
  typeof defaults & { url: string | readonly string[] } & { backoff: { baseMs: number; capMs: number } };

export function settingsOf(options: ConnectOptions): Settings {
  const { url: asked = process.env.SIGNALBOX_URL || 'ws://127.0.0.1:7171' } = options;
  const url = typeof asked === 'string' ? withPath(asked) : asked.map(withPath);
  return { ...defaults, ...given(options), url, backoff: { baseMs: 50, capMs: 5000, ...given(options.backoff ?? {}) } };
}

/** An option that is there but undefined is one that was left out. */
function given<Options extends object>(options: Options): Options {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Options;
}

/** What people write is a host and a port: the path of the wire, and its scheme, are known. */
function withPath(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  url.protocol = url.protocol.replace(/^http/, 'ws');
  if (url.pathname === '/') url.pathname = wsPath;
  return url.href;
}

/** The wire's bounds on what one message may hold. */
export const lineBytesMax = 1024 * 1024;
export const linesMax = 64;
export const batchMax = 1000;
