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
  if (redis.url !== undefined) return { kind: 'url', url: redis.url, options };
  return ['sentinels', 'host', 'path'].some((key) => key in options) ? { kind: 'options', options } : undefined;
}
