import { resolve } from 'node:path';
import { type Config, loadConfig } from '../config.js';
import { wsPath } from '../protocol/frame.js';
import { ownCommand, shellWord } from './package.js';

export interface Place {
  /** As a client writes them. */
  readonly ws: string;
  readonly http: string;
  /** Listens beyond this machine. */
  readonly everywhere: boolean;
}

export function placeOf({ host, port }: { host: string; port: number }): Place {
  const everywhere = host === '0.0.0.0' || host === '::';
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host;
  return { ws: `ws://${name}:${port}${wsPath}`, http: `http://${name}:${port}`, everywhere };
}

/** A URL may hold a password; a terminal's history should not. */
export function withoutPassword(url: string): string {
  return url.replace(/^([a-z]+:\/\/[^:@/]*):[^@/]*@/i, '$1:***@');
}

const defaultUrl = `ws://127.0.0.1:7171${wsPath}`;

/** What `up` prints when it is up: where everything is, and three things to try. Each line can be pasted as it stands. */
export function banner(config: Config, place: Place, socket: string | undefined): string {
  const { redis, stateDir, ephemeral, gateway } = config;
  const self = ownCommand();
  const at = place.ws === defaultUrl ? '' : ` --url ${place.ws}`;
  const store =
    socket === undefined
      ? `the Redis at ${withoutPassword(redis.url ?? redis.clusterNodes.join(', '))}`
      : `${resolve(stateDir)}${ephemeral ? ' (ephemeral: nothing is kept)' : ''}`;
  const lines = [
    `Signalbox is up`,
    `  clients      ${place.ws}${place.everywhere ? ' (and every other address of this machine)' : ''}`,
    `  http         ${place.http}/healthz /readyz /metrics`,
    `  state        ${store}`,
    ...(socket === undefined ? [] : [`  redis        ${socket}`]),
    '',
    `Try, each in a terminal of its own${gateway.token === undefined ? '' : ' (with SIGNALBOX_TOKEN set)'}:`,
    `  ${self} tail${at}`,
    `  ${self} redis-cli${redisFlags(config, socket)} -- PUBLISH signalbox:default:deploy.finished '{"version":"1.2"}'`,
    `  ${self} work docs${at} -- wc -w`,
    `  ${self} enqueue docs '{"text":"three little words"}' --wait${at}`,
    '',
  ];
  return lines.join('\n');
}

/** What another terminal, without our environment, has to be told to find the same Redis. */
function redisFlags({ stateDir, redis }: Config, socket: string | undefined): string {
  if (socket !== undefined) {
    const { HOME, XDG_STATE_HOME } = process.env;
    const usual = loadConfig({ env: { HOME, XDG_STATE_HOME } }).stateDir;
    return resolve(stateDir) === resolve(usual) ? '' : ` --state-dir ${shellWord(resolve(stateDir))}`;
  }
  // With a password it is left to REDIS_URL.
  return redis.url === undefined || withoutPassword(redis.url) !== redis.url
    ? ''
    : ` --redis-url ${shellWord(redis.url)}`;
}
