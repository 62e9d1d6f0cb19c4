import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { configuredTarget } from '../../src/redis/target.js';

const targetOf = (url: string) => configuredTarget(loadConfig({ env: { REDIS_URL: url } }));

describe('where the configured Redis is', () => {
  test('nowhere, when the daemon runs its own', () => expect(configuredTarget(loadConfig())).toBeUndefined());

  test.each([
    ['unix:///run/redis.sock', { path: '/run/redis.sock' }],
    ['unix:///with%20blank/r.sock', { path: '/with blank/r.sock' }],
    ['unix://:secret@/run/redis.sock', { path: '/run/redis.sock', password: 'secret' }],
    [
      'unix://me:se%40cret@/run/redis.sock?db=3',
      { path: '/run/redis.sock', username: 'me', password: 'se@cret', db: 3 },
    ],
  ])('%s is a socket with its credentials', (url, options) =>
    expect(targetOf(url)).toEqual({ kind: 'options', options }),
  );

  test('a TCP URL goes to ioredis as it is', () =>
    expect(targetOf('redis://:pw@127.0.0.1:7000/2')).toMatchObject({
      kind: 'url',
      url: 'redis://:pw@127.0.0.1:7000/2',
    }));
});
