import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { spawnGuarded } from '../../src/redis/guardian.js';

/** The same for both sides, and what the daemon's own Redis runs with. */
export const redisFlags = {
  port: '0',
  appendonly: 'yes',
  appendfsync: 'everysec',
  save: '',
  'maxmemory-policy': 'noeviction',
  'zset-max-listpack-entries': '16',
} as const;

export interface BenchRedis {
  readonly path: string;
  readonly pid: number;
  readonly version: string;
  readonly client: Redis;
  stop(): Promise<void>;
}

/** A redis-server of one side's own, on a Unix socket; a guardian ends it with this process, however that ends. */
export async function startRedis(): Promise<BenchRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'sb-bench-'));
  const path = join(dir, 'redis.sock');
  const output = openSync(join(dir, 'redis.log'), 'a');
  const flags = Object.entries({ ...redisFlags, unixsocket: path, dir }).flatMap(([name, value]) => [
    `--${name}`,
    value,
  ]);
  const child = spawnGuarded('redis-server', flags, { cwd: dir, output, removes: [dir] });
  closeSync(output);
  const client = new Redis({ path, retryStrategy: () => 20, maxRetriesPerRequest: null } as never);
  client.on('error', () => {}); // until it listens
  child.once('error', (error) => {
    throw error;
  });
  const [, version = '?'] = /redis_version:(\S+)/.exec(await client.info('server')) ?? [];
  return {
    path,
    pid: child.pid!,
    version,
    client,
    async stop() {
      client.disconnect();
      if (child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit');
        child.kill('SIGTERM');
        await gone;
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
