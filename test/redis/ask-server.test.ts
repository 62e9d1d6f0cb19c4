import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { askServer } from '../../src/redis/ask-server.js';
import { startRedis } from '../support/redis.js';
import { until } from '../support/until.js';

const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

test('a server says who it is; asking one that is not there, or not any more, keeps the process awake no longer', async () => {
  const redis = await startRedis();
  expect(await askServer(redis.path, 1000)).toMatchObject({ pid: redis.pid, loading: false });
  await redis.kill();
  const before = timers();
  expect(await askServer(redis.path, 1000)).toBe('absent');
  expect(await askServer(join(tmpdir(), 'nobody', 'redis.sock'), 1000)).toBe('absent');
  await until(() => timers() <= before, 1000);
  await redis.stop();
});
