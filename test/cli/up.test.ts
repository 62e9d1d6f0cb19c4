import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { identityOf } from '../../src/lib/process-identity.js';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';
import { type Running, start } from './cli.js';

let dir: string;
const running: Running[] = [];
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'sb-up-'));
});
afterEach(async () => {
  for (const one of running.splice(0)) {
    one.process.kill('SIGTERM');
    await one.ended;
  }
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function up(name: string, ...args: string[]): Running {
  const one = start(['up', '--port', '0', '--state-dir', join(dir, name), ...args]);
  running.push(one);
  return one;
}

const isUp = (out: string): boolean => out.includes('Try, ');
const urlIn = (out: string): string => /ws:\/\/[^\s"]+/.exec(out)![0];
const redisPid = (name: string): number => JSON.parse(readFileSync(join(dir, name, 'redis.json'), 'utf8')).pid;

/** What a running daemon shows, and the signal that ends it then. */
const lives: {
  what: string;
  signal: NodeJS.Signals;
  args: string[];
  shows: (daemon: Running, at: string) => unknown;
}[] = [
  {
    what: 'the banner says where it listens and where its state is',
    signal: 'SIGTERM',
    args: [],
    shows: async (daemon, at) => {
      await daemon.until(isUp);
      expect(daemon.out()).toContain(`state        ${at}\n`);
      expect(daemon.out()).toContain(`redis        ${join(at, 'redis.sock')}\n`);
    },
  },
  {
    what: '--json prints one line that says the same',
    signal: 'SIGINT',
    args: ['--json'],
    shows: async (daemon, at) => {
      await daemon.until((out) => out.includes('\n'));
      const { ws, http, socket, pid } = JSON.parse(daemon.out());
      expect(ws).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\/v1\/ws$/);
      expect([http, socket, pid]).toEqual([
        ws.slice(0, -6).replace('ws:', 'http:'),
        join(at, 'redis.sock'),
        daemon.process.pid,
      ]);
    },
  },
  {
    what: 'a second daemon on the same state directory is told who holds it',
    signal: 'SIGHUP',
    args: [],
    shows: async (daemon, at) => {
      await daemon.until(isUp);
      const { code, err } = await start(['up', '--port', '0', '--state-dir', at]).ended;
      expect(code).toBe(1);
      expect(err).toContain(String(daemon.process.pid));
    },
  },
];

for (const { what, signal, args, shows } of lives) {
  test(`${what}, and clients get in; ${signal} stops it, its Redis last, with exit code 0; the same again within a second changes nothing`, async () => {
    const name = `stop-${signal}`;
    const daemon = up(name, ...args);
    await shows(daemon, join(dir, name));
    const redis = redisPid(name);
    const watcher = await Wire.open(urlIn(daemon.out()));
    expect(watcher.hello).toMatchObject({ protocol: 'signalbox.v1', auth: 'none' });
    daemon.process.kill(signal);
    daemon.process.kill(signal);
    expect((await daemon.ended).code).toBe(0);
    expect(watcher.closed?.code).toBe(1012);
    expect(identityOf(redis)).toBeUndefined();
    expect(daemon.err()).toContain('"msg":"stopped"');
  });
}

test('a signal while it starts ends it as well, and leaves no Redis', async () => {
  const daemon = up('early');
  await daemon.until((_, err) => err.includes('managed Redis'));
  const redis = redisPid('early');
  daemon.process.kill('SIGTERM');
  expect((await daemon.ended).code).toBe(0);
  await until(() => identityOf(redis) === undefined);
});

test('a taken port ends the start with 1, one message, and without the Redis it had started', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await until(() => server.listening);
  const { port } = server.address() as { port: number };
  const daemon = start(['up', '--port', String(port), '--state-dir', join(dir, 'taken')]);
  const { code, out, err } = await daemon.ended;
  server.close();
  expect([code, out]).toEqual([1, '']);
  const said = err.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
  expect(said).toEqual([
    `signalbox: port ${port} of 127.0.0.1 is in use`,
    '  stop what listens there (another Signalbox?), or choose a port by --port; 0 takes a free one',
  ]);
  const { pid } = err.split('\n').flatMap((line) => (line.includes('"started"') ? [JSON.parse(line)] : []))[0];
  expect(identityOf(pid)).toBeUndefined();
});

test('--ephemeral keeps nothing, and its Redis does not outlive a SIGKILL', async () => {
  const daemon = up('ephemeral', '--ephemeral');
  await daemon.until(isUp);
  const redis = redisPid('ephemeral');
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  await until(() => identityOf(redis) === undefined);
});

test('settings: flags over environment over file; every wrong one is named, with its value and where it came from', async () => {
  const file = join(dir, 'wrong.json');
  writeFileSync(file, JSON.stringify({ session: { ttlMs: 'soon' }, gatewai: {} }));
  const flags = ['--config', file, '--set', 'sweep.everyMs=0', '--port', 'x'];
  const { code, err } = await start(['up', ...flags], { env: { SIGNALBOX_PORT: '7000' } }).ended;
  expect(code).toBe(1);
  expect(err).toContain(`gatewai (from ${file}): expected a known setting`);
  writeFileSync(file, JSON.stringify({ session: { ttlMs: 'soon' } }));
  const second = await start(['up', ...flags], { env: { SIGNALBOX_PORT: '7000' } }).ended;
  expect(second.code).toBe(1);
  for (const line of [
    `session.ttlMs is "soon" (from ${file}): expected a whole number`,
    'sweep.everyMs is 0 (from the command line): expected a whole number',
    'gateway.port is "x" (from the command line): expected a whole number',
  ]) {
    expect(second.err).toContain(line);
  }
});

test('a Redis that may evict keys is refused, with what to do', async () => {
  const { startRedis } = await import('../support/redis.js');
  const redis = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] });
  const { code, err } = await start(['up', '--port', '0', '--redis-url', `unix://${redis.path}`]).ended;
  expect(code).toBe(1);
  expect(err).toContain('CONFIG SET maxmemory-policy noeviction');
  await redis.stop();
});
