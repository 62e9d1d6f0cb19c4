import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { identityOf } from '../../src/lib/process-identity.js';
import { startRedis } from './redis.js';

test('a redis-server of the test: killed, started again on its data, stopped without a trace', async () => {
  const redis = await startRedis({ args: ['--appendonly', 'yes'] });
  const client = redis.client({ retryStrategy: () => 10 });
  await client.set('kept', 'yes');
  const { pid } = redis;
  await redis.kill();
  expect(identityOf(pid)).toBeUndefined();
  await redis.restart();
  expect(redis.pid).not.toBe(pid);
  expect(await client.get('kept')).toBe('yes');
  await redis.restart();
  expect(await client.get('kept')).toBe('yes');
  await redis.stop();
  await redis.stop();
  expect(identityOf(redis.pid)).toBeUndefined();
  expect(existsSync(dirname(redis.path))).toBe(false);
});
