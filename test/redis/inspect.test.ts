import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Finding, inspectRedis, judge, type RedisFacts } from '../../src/redis/inspect.js';
import { startRedis, type TestRedis } from '../support/redis.js';

const strict = { allowEviction: false };
const by = (findings: Finding[], id: Finding['id']) => findings.find((finding) => finding.id === id);

describe('a real server', () => {
  let redis: TestRedis;
  beforeAll(async () => {
    redis = await startRedis({ args: ['--appendonly', 'yes', '--maxmemory', '100mb'] });
  });
  afterAll(() => redis.stop());

  test('set up as the managed one is: nothing to say against it', async () => {
    const findings = await inspectRedis(redis.client(), strict);
    expect(findings.map(({ id, level }) => `${id} ${level}`)).toEqual([
      'version ok',
      'role ok',
      'eviction ok',
      'persistence ok',
      'memory ok',
      'latency ok',
    ]);
    expect(by(findings, 'version')?.message).toMatch(/^(Redis|Valkey) \d+\.\d+\.\d+$/);
    expect(by(findings, 'memory')?.message).toMatch(/^\d MiB of 100 MiB in use \(\d %\)$/);
    expect(by(findings, 'persistence')?.message).toBe('append-only file, appendfsync everysec');
  });

  test('an eviction policy is an error, and a loud warning where it is allowed', async () => {
    const client = redis.client();
    await client.config('SET', 'maxmemory-policy', 'allkeys-lru');
    try {
      const refused = by(await inspectRedis(client, strict), 'eviction');
      expect(refused).toMatchObject({ level: 'error', message: expect.stringContaining('allkeys-lru') });
      expect(refused?.advice).toContain('noeviction');
      const allowed = by(await inspectRedis(client, { allowEviction: true }), 'eviction');
      expect(allowed).toMatchObject({ level: 'warn', advice: expect.stringContaining('Data can be lost') });
    } finally {
      await client.config('SET', 'maxmemory-policy', 'noeviction');
    }
  });

  test('no persistence, no bound of memory, a replica', async () => {
    const client = redis.client();
    await client.config('SET', 'appendonly', 'no');
    await client.config('SET', 'maxmemory', '0');
    await client.replicaof('127.0.0.1', '1');
    const findings = await inspectRedis(client, strict);
    expect(by(findings, 'persistence')).toMatchObject({
      level: 'warn',
      advice: expect.stringContaining('appendonly yes'),
    });
    expect(by(findings, 'memory')).toMatchObject({ level: 'warn', advice: expect.stringContaining('maxmemory') });
    expect(by(findings, 'role')).toMatchObject({ level: 'error', advice: expect.stringContaining('127.0.0.1:1') });
  });

  test('a server that forbids CONFIG, as hosted ones do', async () => {
    const admin = redis.client();
    await admin.acl('SETUSER', 'guest', 'on', '>pass', '~*', '+@all', '-config');
    const findings = await inspectRedis(redis.client({ username: 'guest', password: 'pass' }), strict);
    expect(by(findings, 'eviction')?.level).toBe('ok');
  });
});

describe('servers nobody has here', () => {
  const info = {
    redis_version: '7.2.4',
    role: 'master',
    maxmemory_policy: 'noeviction',
    aof_enabled: '1',
    aof_last_write_status: 'ok',
    aof_last_bgrewrite_status: 'ok',
    used_memory: '10',
    maxmemory: '100',
  };
  const facts = (change: Record<string, string>, rest: Partial<RedisFacts> = {}): RedisFacts => ({
    info: { ...info, ...change },
    appendFsync: 'always',
    latencyMs: 0.1,
    ...rest,
  });

  test.each([
    ['version', facts({ redis_version: '6.2.14' }), 'error'],
    ['version', facts({ valkey_version: '7.2.5' }), 'ok'],
    ['version', facts({ valkey_version: '7.0.0' }), 'error'],
    ['memory', facts({ used_memory: '80' }), 'warn'],
    ['memory', facts({ used_memory: '79' }), 'ok'],
    ['persistence', facts({ aof_last_write_status: 'err' }), 'warn'],
    ['persistence', facts({ aof_last_bgrewrite_status: 'err' }), 'warn'],
    ['persistence', facts({}, { appendFsync: 'no' }), 'warn'],
    ['latency', facts({}, { latencyMs: 12 }), 'warn'],
    ['eviction', facts({ maxmemory_policy: 'volatile-ttl' }), 'error'],
  ] as const)('%s of %j is %s', (id, given, level) => {
    const finding = by(judge(given, strict), id);
    expect(finding?.level).toBe(level);
    expect(finding?.advice === '').toBe(level === 'ok');
  });
});
