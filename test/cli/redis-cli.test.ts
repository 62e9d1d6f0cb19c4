import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startRedis } from '../support/redis.js';
import { cli, json, type Running, start } from './cli.js';

/** A managed daemon, as `npm start` has it; and what the same commands say when it is down. */
let dir: string;
let state: string[];
let daemon: Running;
let url: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'sb-cli-'));
  state = ['--state-dir', join(dir, 'state')];
  daemon = start(['up', '--port', '0', '--json', ...state]);
  await daemon.until((out) => out.includes('\n'));
  url = JSON.parse(daemon.out()).ws;
});
afterAll(async () => {
  daemon.process.kill('SIGTERM');
  await daemon.ended;
  rmSync(dir, { recursive: true, force: true });
});

const redisCli = (args: string[], env: NodeJS.ProcessEnv = {}) => start(['redis-cli', ...args], { env }).ended;

test('redis-cli reaches the managed Redis, by flag and by the environment; its exit code is passed on', async () => {
  expect((await redisCli([...state, '--', 'PING'])).out).toBe('PONG\n');
  const env = { SIGNALBOX_STATE_DIR: join(dir, 'state') };
  expect((await redisCli(['--', 'CONFIG', 'GET', 'maxmemory-policy'], env)).out).toContain('noeviction');
  expect((await redisCli([...state, '--', '-e', 'NONSENSE'])).code).toBe(1);
});

test('redis-cli reaches a configured Redis by its URL, with a password that no process list shows', async () => {
  const redis = await startRedis();
  await redis.client().call('ACL', 'SETUSER', 'app', 'on', '>p@ss', '~*', '&*', '+@all');
  const env = { REDIS_URL: `unix://app:p%40ss@${redis.path}` };
  expect(await redisCli(['--', '--no-auth-warning', 'ACL', 'WHOAMI'], env)).toEqual({ code: 0, out: 'app\n', err: '' });
  await redis.stop();
});

test('doctor finds nothing to complain of on a fresh daemon', async () => {
  const { checks } = await json(['doctor', ...state, '--url', url]);
  expect(checks.filter(({ level }: { level: string }) => level !== 'ok')).toEqual([]);
  const ids = checks.map(({ area, id }: { area: string; id: string }) => `${area}.${id}`);
  expect(ids).toEqual([
    'settings.settings',
    ...['version', 'role', 'eviction', 'persistence', 'memory', 'latency'].map((id) => `redis.${id}`),
    'data.invariants',
    ...['healthz', 'readyz', 'latency'].map((id) => `daemon.${id}`),
  ]);
});

test('doctor says what to do: about a Redis without persistence, and about a daemon that is down', async () => {
  const redis = await startRedis();
  const { code, out } = await cli(['doctor', '--redis-url', `unix://${redis.path}`, '--url', 'ws://127.0.0.1:1']);
  await redis.stop();
  expect(code).toBe(1);
  expect(out).toMatch(/WARN +redis +no append-only file.*\n +Set appendonly yes/);
  expect(out).toMatch(
    /ERROR +daemon +no daemon answers at ws:\/\/127\.0\.0\.1:1\/v1\/ws\n +Start one with `signalbox up`/,
  );
});

test('without a daemon: redis-cli and doctor name the state directory they looked in', async () => {
  const empty = join(dir, 'empty');
  const { code, err } = await cli(['redis-cli', '--state-dir', empty, '--', 'PING']);
  expect(code).toBe(1);
  expect(err).toContain(`no managed Redis runs on ${empty}`);
  const doctor = await cli(['doctor', '--state-dir', empty, '--url', 'ws://127.0.0.1:1']);
  expect(doctor.code).toBe(1);
  expect(doctor.out).toContain(`WARN   redis     no managed Redis runs on ${empty}; Redis`);
});

test('doctor on wrong settings names them, and still looks at the daemon', async () => {
  const { code, out } = await cli(['doctor', '--url', url, '--set', 'sweep.everyMs=never', '--json']);
  const { checks } = JSON.parse(out);
  expect(code).toBe(1);
  expect(checks[0]).toMatchObject({
    area: 'settings',
    level: 'error',
    message: expect.stringContaining('sweep.everyMs'),
  });
  expect(checks.at(-1)).toMatchObject({ area: 'daemon', level: 'ok' });
});
