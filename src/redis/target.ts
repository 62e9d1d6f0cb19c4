import type { RedisOptions } from 'ioredis';
import type { Config } from '../config.js';
import type { RedisTarget } from './connection.js';

/** Where the configured Redis is; undefined when the daemon runs its own. */
export function configuredTarget({ redis }: Pick<Config, 'redis'>): RedisTarget | undefined {
  const options = redis.options as RedisOptions;
  if (redis.clusterNodes.length > 0) {
    const nodes = redis.clusterNodes.map((node) => {
      const colon = node.lastIndexOf(':');
      return { host: node.slice(0, colon), port: Number(node.slice(colon + 1)) };
    });
    return { kind: 'cluster', nodes, options: { ...options } };
  }
  if (redis.url?.startsWith('unix:')) return { kind: 'options', options: { ...socketOptions(redis.url), ...options } };
  if (redis.url !== undefined) return { kind: 'url', url: redis.url, options };
  return ['sentinels', 'host', 'path'].some((key) => key in options) ? { kind: 'options', options } : undefined;
}

const socketUrl = /^unix:(?:\/\/)?(?:([^:@/]*)(?::([^@]*))?@)?([^?]+)(?:\?db=(\d+))?$/;

/** `unix://user:password@/path?db=n`: ioredis would take all of it for the path, and URL has no host to put it at. */
function socketOptions(text: string): RedisOptions {
  const [, username, password, path = '', db] = socketUrl.exec(text) ?? [];
  return {
    path: decodeURIComponent(path),
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
    ...(db === undefined ? {} : { db: Number(db) }),
  };
}
