import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Stands between a daemon and its Redis, and can make exactly its blocking readers deaf: connections that have read the
 * log, and new ones, swallow everything, while the one for commands goes on.
 */
export interface DeafProxy {
  readonly path: string;
  deafen(): void;
  heal(): void;
  stop(): void;
}

export async function startDeafProxy(redisPath: string): Promise<DeafProxy> {
  const dir = mkdtempSync(join(tmpdir(), 'sb-deaf-'));
  const path = join(dir, 'redis.sock');
  const commands = new Set<Socket>();
  const sockets = new Set<Socket>();
  let isDeaf = false;
  const server = createServer((client) => {
    const upstream = createConnection(redisPath);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        client.destroy();
        upstream.destroy();
        sockets.delete(socket);
      });
    }
    const hears = (): boolean => !isDeaf || commands.has(client);
    client.on('data', (data) => {
      if (/evalsha/i.test(data.toString('latin1'))) commands.add(client);
      if (hears()) upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (hears()) client.write(data);
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    deafen: () => {
      isDeaf = true;
    },
    heal: () => {
      isDeaf = false;
    },
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
