import { execFile } from 'node:child_process';
import { request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Facts, judgeHealth, judgeReadiness } from '../../src/ops/health.js';
import { startDaemon, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { startRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { startDeafProxy } from './deaf-proxy.js';

/** One daemon is looked at in everything that can happen to it, one thing after the other; its stop comes last. */
let world: World;
beforeAll(async () => {
  world = await startWorld({ 'gateway.allowedHosts': 'monitor.example', 'gateway.drainMs': 1500 });
});
afterAll(() => world.stop());

async function ask(daemon: TestDaemon, path: string) {
  const response = await fetch(`${daemon.http}${path}`, { signal: AbortSignal.timeout(10_000) });
  return (await response.json()) as { status: string; reasons: string[]; [more: string]: unknown };
}

describe('R27: /healthz and /readyz', () => {
  test('a fresh daemon is well and ready, and says how many it serves', async () => {
    const { daemon } = world;
    const agent = await daemon.session();
    await agent.call('queue.work', { queue: 'q', credit: 1 });
    const numbers = { reasons: [], redis: 'up', draining: false, connections: 1, sessions: 1, workers: 1 };
    expect((await fetch(`${daemon.http}/healthz`)).status).toBe(200);
    expect(await ask(daemon, '/healthz')).toMatchObject({ status: 'ok', ...numbers });
    expect(await ask(daemon, '/readyz')).toMatchObject({ status: 'ready', ...numbers });
    await agent.close();
  });

  test('Redis killed: not ready, but well, for a restart of the daemon would not help; ready again when it is back', async () => {
    const { daemon, redis } = world;
    await redis.kill();
    await until(async () => (await ask(daemon, '/readyz')).reasons.includes('Redis does not answer'));
    expect((await fetch(`${daemon.http}/readyz`)).status).toBe(503);
    expect(await ask(daemon, '/healthz')).toMatchObject({ status: 'ok', redis: 'down' });
    await redis.restart();
    await until(async () => (await ask(daemon, '/readyz')).status === 'ready');
    expect(await ask(daemon, '/healthz')).toMatchObject({ status: 'ok', redis: 'up' });
  });

  test('Redis frozen for longer than a reader may be deaf: never called stuck, neither then nor after the thaw', async () => {
    const { daemon, redis } = world;
    process.kill(redis.pid, 'SIGSTOP');
    const verdicts = new Set<unknown>();
    const look = async () => verdicts.add((await ask(daemon, '/healthz')).status);
    const frozenUntil = performance.now() + 4500;
    try {
      await until(async () => {
        await look();
        return performance.now() > frozenUntil;
      });
      expect(await ask(daemon, '/readyz')).toMatchObject({ status: 'notReady' });
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await until(async () => {
      await look();
      return (await ask(daemon, '/readyz')).status === 'ready';
    });
    await look();
    expect([...verdicts]).toEqual(['ok']);
  });

  test('Redis answers but the reader of the log is deaf: stuck, and the check of the container says so; well when it hears', async () => {
    const redis = await startRedis();
    const proxy = await startDeafProxy(redis.path);
    const daemon = await startDaemon(proxy.path);
    onTestFinished(async () => {
      await daemon.stop();
      proxy.stop();
      await redis.stop();
    });
    const check = () =>
      promisify(execFile)(process.execPath, [fileURLToPath(new URL('../../bin/healthcheck.js', import.meta.url))], {
        env: { ...process.env, SIGNALBOX_PORT: new URL(daemon.http).port },
      }).then(
        () => 0,
        ({ code }) => code,
      );
    expect(await check()).toBe(0);
    proxy.deafen();
    await until(async () => (await ask(daemon, '/healthz')).status === 'stuck');
    expect((await ask(daemon, '/healthz')).reasons).toEqual([
      expect.stringMatching(/^Redis answers, but the log of namespace default was not read for \d+ ms$/),
    ]);
    expect(await ask(daemon, '/readyz')).toMatchObject({ status: 'notReady', redis: 'up' });
    expect(await check()).toBe(1);
    proxy.heal();
    await until(async () => (await ask(daemon, '/healthz')).status === 'ok');
  });

  test('answers HTTP as it should: HEAD, other methods, other paths, hosts that are not ours', async () => {
    const { daemon } = world;
    const raw = (method: string, path: string, host = 'localhost') =>
      new Promise<number>((resolve, reject) => {
        request(`${daemon.http}${path}`, { method, headers: { host } }, (response) => {
          response.resume();
          resolve(response.statusCode!);
        })
          .on('error', reject)
          .end();
      });
    expect(await raw('HEAD', '/healthz')).toBe(200);
    expect(await raw('GET', '/healthz?verbose')).toBe(200);
    expect(await raw('POST', '/healthz')).toBe(405);
    for (const path of ['/', '/nope', '/healthz/', '/constructor']) expect(await raw('GET', path)).toBe(404);
    expect(await raw('GET', '/healthz', 'evil.example')).toBe(421);
    expect(await raw('GET', '/metrics', 'evil.example:80')).toBe(421);
    expect(await raw('GET', '/healthz', 'monitor.example:7171')).toBe(200);
  });

  test('a daemon that drains is well and not ready', async () => {
    const { daemon } = world;
    for (let i = 0; i < 3; i++) await daemon.wire();
    daemon.process.kill('SIGTERM');
    await until(async () => (await ask(daemon, '/readyz')).reasons.includes('the daemon is stopping'));
    expect(await ask(daemon, '/healthz')).toMatchObject({ status: 'ok', draining: true });
    expect(await daemon.stop()).toBe(0);
  });
});

describe('the verdict', () => {
  const well: Facts = {
    redisAnswers: true,
    redisForMs: 60_000,
    readers: [{ namespace: 'a', ageMs: 100, deafMs: 7000 }],
    loopLagMs: 1,
    draining: false,
  };

  test('a reader that is late a moment after Redis came back is not deaf', () => {
    const readers = [{ namespace: 'a', ageMs: 30_000, deafMs: 7000 }];
    expect(judgeHealth({ ...well, readers }).good).toBe(false);
    expect(judgeHealth({ ...well, readers, redisForMs: 6000 }).good).toBe(true);
    expect(judgeHealth({ ...well, readers, redisForMs: 0, redisAnswers: false }).good).toBe(true);
  });

  test('an event loop that cannot keep sessions alive is stuck', () => {
    expect(judgeHealth({ ...well, loopLagMs: 1500 }).reasons).toEqual(['the event loop is 1500 ms late on average']);
    expect(judgeReadiness({ ...well, loopLagMs: 1500 }).good).toBe(false);
  });
});
