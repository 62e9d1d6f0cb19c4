import { Redis } from 'ioredis';

/** What a running server says about itself, enough to know whether it is the one we started. */
export interface ServerFacts {
  readonly pid: number;
  readonly runId: string;
  readonly dir: string;
  readonly loading: boolean;
}

/** `absent`: nobody listens there. `silent`: somebody does, but gave no answer in time. */
export type Answer = ServerFacts | 'absent' | 'silent';

/** Asks once, over a connection of its own that is closed again; never waits longer than the limit. */
export async function askServer(
  path: string,
  limitMs: number,
  configure: Record<string, string> = {},
): Promise<Answer> {
  const redis = new Redis({
    path,
    lazyConnect: true,
    retryStrategy: () => null,
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    connectTimeout: limitMs,
    commandTimeout: limitMs,
    // How long ioredis keeps the process awake for a socket to close, also when it was closed before or never open.
    disconnectTimeout: 50,
    protocol: 2,
    disableClientInfo: true,
  });
  let refused = false;
  redis.on('error', (error: NodeJS.ErrnoException) => {
    refused ||= error.code === 'ENOENT' || error.code === 'ECONNREFUSED';
  });
  try {
    await redis.connect();
    for (const [name, value] of Object.entries(configure)) await redis.config('SET', name, value);
    const [info, config] = await Promise.all([redis.info(), redis.config('GET', 'dir')]);
    const field = (name: string) => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1] ?? '';
    return {
      pid: Number(field('process_id')),
      runId: field('run_id'),
      dir: String((config as string[])[1] ?? ''),
      loading: field('loading') !== '0',
    };
  } catch {
    return refused ? 'absent' : 'silent';
  } finally {
    redis.disconnect();
  }
}
