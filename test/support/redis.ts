import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis, type RedisOptions } from 'ioredis';
import { spawnGuarded } from '../../src/redis/guardian.js';

type ClientOptions = Omit<RedisOptions, 'path' | 'replyMapping'>;

export interface TestRedis {
  /** Unix socket. It stays the same over `restart()`. */
  readonly path: string;
  readonly pid: number;
  /** A connected-on-use client; `stop()` closes the ones it made. */
  client(options?: ClientOptions): Redis;
  /** Ends the server and removes its directory. Safe to call twice. */
  stop(): Promise<void>;
  /** SIGKILL, as a crash would be. The data directory stays for `restart()`. */
  kill(): Promise<void>;
  /** Starts it again on the same directory and socket; a running one is ended in order first. */
  restart(): Promise<void>;
}

/**
 * A real redis-server of this test's own: Unix socket in a temporary directory, no TCP port, no persistence unless
 * `args` says so (e.g. ['--appendonly', 'yes']; ['--port', '0'] can be overridden too, the last one counts). A
 * guardian ends it when the test process dies in any way.
 */
export async function startRedis(options: { args?: readonly string[] } = {}): Promise<TestRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'sb-redis-'));
  const path = join(dir, 'redis.sock');
  const log = join(dir, 'redis.log');
  const clients = new Set<Redis>();
  let child = await launch();

  async function launch(): Promise<ChildProcess> {
    const output = openSync(log, 'a');
    const args = ['--port', '0', '--unixsocket', path, '--dir', dir, '--save', '', '--maxmemory-policy', 'noeviction'];
    const started = spawnGuarded('redis-server', [...args, ...(options.args ?? [])], {
      cwd: dir,
      output,
      removes: [dir],
    });
    closeSync(output);
    started.unref();
    await ready(started, path, log);
    return started;
  }

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.ref();
    child.kill(signal);
    await exited;
  }

  return {
    path,
    get pid() {
      return child.pid ?? 0;
    },
    client(clientOptions = {}) {
      const client = new Redis({ ...clientOptions, path });
      client.on('error', () => {}); // while the server is away on purpose
      clients.add(client);
      return client;
    },
    async stop() {
      for (const client of clients) client.disconnect();
      clients.clear();
      await end('SIGTERM');
      rmSync(dir, { recursive: true, force: true });
    },
    kill: () => end('SIGKILL'),
    async restart() {
      await end('SIGTERM');
      child = await launch();
    },
  };
}

/** Resolves when the server answers PING with PONG (not LOADING), and rejects with its output when it ended. */
async function ready(child: ChildProcess, path: string, log: string): Promise<void> {
  const probe = new Redis({ path, retryStrategy: () => 10, maxRetriesPerRequest: null });
  probe.on('error', () => {});
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}:\n${readFileSync(log, 'utf8')}`)));
  });
  failed.catch(() => {});
  try {
    await Promise.race([probe.ping(), failed]);
  } finally {
    probe.disconnect();
  }
}
