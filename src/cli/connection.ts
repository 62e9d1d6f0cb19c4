import { hostname } from 'node:os';
import type { Command } from 'commander';
import { Closed } from '../client/errors.js';
import { connect, type Signalbox } from '../client/index.js';
import type { ConnectOptions } from '../client/options.js';
import { wsPath } from '../protocol/frame.js';
import { CliError, wrongUsage } from './exit.js';
import { say } from './output.js';

export interface ConnectionFlags {
  readonly url?: string;
  readonly token?: string;
  readonly namespace?: string;
  readonly json?: boolean;
}

/** The options of every subcommand that talks to a daemon. */
export function connected(command: Command): Command {
  return command
    .option('--url <url>', 'where the daemon listens ($SIGNALBOX_URL; ws://127.0.0.1:7171)')
    .option('--token <token>', 'the token it asks for ($SIGNALBOX_TOKEN)')
    .option('--namespace <name>', 'the namespace to work in', 'default')
    .option('--json', 'print JSON, errors too');
}

/** Takes what people type: a host and port, http://, with or without the path. */
export function daemonUrl(flags: ConnectionFlags, env = process.env): URL {
  const port = env.SIGNALBOX_PORT || env.SIGNALBOX_GATEWAY_PORT || '7171';
  const given = flags.url || env.SIGNALBOX_URL || `ws://127.0.0.1:${port}`;
  const text = (/^[a-z]+:\/\//i.test(given) ? given : `ws://${given}`).replace(/^http/i, 'ws');
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw wrongUsage(`${given} is no URL`, 'write it like ws://127.0.0.1:7171');
  }
  if (url.protocol !== 'ws:' && url.protocol !== 'wss:')
    throw wrongUsage(`${given} is no WebSocket URL`, 'write it like ws://127.0.0.1:7171');
  if (url.pathname === '/') url.pathname = wsPath;
  return url;
}

/** The same port, as plain HTTP. */
export function httpUrl(url: URL, path: string): string {
  return `${url.protocol === 'wss:' ? 'https' : 'http'}://${url.host}${path}`;
}

export const tokenOf = (flags: ConnectionFlags, env = process.env): string | undefined =>
  flags.token || env.SIGNALBOX_TOKEN || env.SIGNALBOX_GATEWAY_TOKEN || undefined;

const nobody = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/;
const connectTimeoutMs = 5000;

/** Where nobody listens there is nothing to wait for; once it was connected the client comes back by itself. */
export async function open(
  flags: ConnectionFlags,
  options: { session: boolean } & Pick<ConnectOptions, 'onStatus' | 'labels' | 'ttlMs' | 'resume'>,
): Promise<Signalbox> {
  const url = daemonUrl(flags);
  const token = tokenOf(flags);
  const giveUp = new AbortController();
  let wasOpen = false;
  let refused = '';
  try {
    return await connect({
      url: url.href,
      namespace: flags.namespace ?? 'default',
      ...(token === undefined ? {} : { token }),
      ...(options.session ? { agent: `cli@${hostname().slice(0, 100)}:${process.pid}` } : {}),
      ...(options.labels === undefined ? {} : { labels: options.labels }),
      ...(options.ttlMs === undefined ? {} : { ttlMs: options.ttlMs }),
      ...(options.resume === undefined ? {} : { resume: options.resume }),
      connectTimeoutMs,
      signal: giveUp.signal,
      onStatus: (status) => {
        wasOpen ||= status.state === 'open';
        if (status.state === 'reconnecting' && !wasOpen && nobody.test(status.reason)) {
          refused = status.reason;
          giveUp.abort();
        }
        // Tries before the first success are no loss; what came of them is told by the error.
        if (wasOpen) options.onStatus?.(status);
      },
    });
  } catch (error) {
    if (refused === '' && !(error instanceof Closed && error.code === 1006)) throw error;
    throw new CliError(`no daemon at ${url.href}: ${refused || (error as Closed).reason}`, {
      advice: 'start one with `signalbox up`, or say by --url or $SIGNALBOX_URL where it listens',
    });
  }
}

/** One connection for one command. `session`: for ops that need one; without it nothing is owned. */
export async function withClient<T>(
  flags: ConnectionFlags,
  { session }: { session: boolean },
  use: (client: Signalbox) => Promise<T>,
): Promise<T> {
  const client = await open(flags, { session });
  try {
    return await use(client);
  } finally {
    await client.close({ limitMs: 2000 });
  }
}

export function tellStatus(status: { state: string; reason?: string; code?: number }): void {
  if (status.state === 'reconnecting') say(`-- connection lost (${status.reason || status.code}); coming back`);
}
