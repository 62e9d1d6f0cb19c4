import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { DirHeldError } from '../../src/lib/dir-lock.js';
import { type ManagedEvent, ManagedRedis, type ManagedRedisOptions } from '../../src/redis/managed.js';
import { findManagedRedis } from '../../src/redis/managed-record.js';
import { checkVersion, findServerBinary } from '../../src/redis/server-binary.js';
import { startRedis } from '../support/redis.js';
import { until } from '../support/until.js';

const root = mkdtempSync(join(tmpdir(), 'sb-managed-'));
const undo: (() => unknown)[] = [];
let folders = 0;

afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

const folder = (name = `state ${++folders}`) => join(root, name);
const fast = { memoryBytes: 0, appendFsync: 'everysec', startMs: 10_000, stopMs: 5_000, restartMaxMs: 100 } as const;

function managed(options: Partial<ManagedRedisOptions> = {}): { redis: ManagedRedis; events: ManagedEvent[] } {
  const events: ManagedEvent[] = [];
  const all = {
    stateDir: folder(),
    ephemeral: false,
    ...fast,
    report: (event: ManagedEvent) => events.push(event),
    ...options,
  };
  const redis = new ManagedRedis(all);
  undo.push(() => redis.stop());
  return { redis, events };
}

function connect(path: string): Redis {
  const client = new Redis({ path, retryStrategy: () => 10, maxRetriesPerRequest: null });
  client.on('error', () => {});
  undo.push(() => client.disconnect());
  return client;
}

/** A daemon of its own process, as far as Redis is concerned; it runs dist/ and prints the pid of its Redis. */
async function daemon(options: Partial<ManagedRedisOptions>): Promise<{ process: ChildProcess; pid: number }> {
  const url = new URL('../../dist/src/redis/managed.js', import.meta.url).href;
  const code = `import { ManagedRedis } from ${JSON.stringify(url)};
    const redis = new ManagedRedis(${JSON.stringify({ ephemeral: false, ...fast, ...options })});
    process.on('SIGTERM', () => redis.stop().then(() => process.exit(0)));
    await redis.start();
    console.log(redis.pid);
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  undo.push(() => child.kill('SIGKILL'));
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { process: child, pid: Number(line) };
}

async function killDaemon({ process: child }: { process: ChildProcess }): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Every process of the session that the Redis leads: itself and its guardian. */
function sessionOf(pid: number): number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return Number(fields[3]) === pid && fields[0] !== 'Z' ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

describe('the managed Redis', () => {
  test('listens on redis.sock of the state directory only, persists, and never evicts', async () => {
    const stateDir = folder(`it's a "state" dir`);
    const { redis, events } = managed({ stateDir });
    await redis.start();
    expect(redis.path).toBe(join(stateDir, 'redis.sock'));
    expect(events).toEqual([
      { kind: 'started', pid: redis.pid, path: redis.path, version: expect.stringMatching(/^(Redis|Valkey) \d/) },
    ]);
    const client = connect(redis.path);
    const get = async (name: string) => ((await client.config('GET', name)) as string[])[1];
    expect(await get('port')).toBe('0');
    expect(await get('maxmemory-policy')).toBe('noeviction');
    expect(await get('appendonly')).toBe('yes');
    expect(await get('appendfsync')).toBe('everysec');
    expect(await get('save')).toBe('');
    expect(Number(await get('maxmemory'))).toBeLessThanOrEqual(Math.min(1024 ** 3, totalmem() / 4));
    expect(Number(await get('maxmemory'))).toBeGreaterThan(0);
    expect(statSync(stateDir).mode & 0o777).toBe(0o700);
    // A session of its own: what a terminal sends to the daemon's group does not reach it.
    expect(sessionOf(redis.pid!)).toEqual([redis.pid]);
    expect(findManagedRedis(stateDir)).toEqual({ path: redis.path, pid: redis.pid });
    expect(readFileSync(join(stateDir, 'redis', 'redis.log'), 'utf8')).toContain('ready to accept connections');
  });

  test('keeps its data over stop and start; both may be called twice', async () => {
    const stateDir = folder();
    const first = managed({ stateDir });
    await Promise.all([first.redis.start(), first.redis.start()]);
    await connect(first.redis.path).set('kept', 'yes');
    const pid = first.redis.pid!;
    await Promise.all([first.redis.stop(), first.redis.stop()]);
    expect(sessionOf(pid)).toEqual([]);
    expect(findManagedRedis(stateDir)).toBeUndefined();
    expect(existsSync(first.redis.path)).toBe(false);
    const second = managed({ stateDir });
    await second.redis.start();
    expect(await connect(second.redis.path).get('kept')).toBe('yes');
  });

  test('a path too long for a socket: a short runtime directory of ours', async () => {
    const stateDir = folder('x'.repeat(120));
    const { redis } = managed({ stateDir });
    await redis.start();
    expect(Buffer.byteLength(redis.path)).toBeLessThan(108);
    expect(redis.path.startsWith(stateDir)).toBe(false);
    expect(statSync(join(redis.path, '..')).mode & 0o777).toBe(0o700);
    expect(await connect(redis.path).ping()).toBe('PONG');
    expect(findManagedRedis(stateDir)?.path).toBe(redis.path);
    await redis.stop();
    expect(existsSync(join(redis.path, '..'))).toBe(false);
  });

  test('a runtime directory that others may write to is refused', async () => {
    const { redis } = managed({ stateDir: folder('y'.repeat(120)) });
    const dir = join(redis.path, '..');
    mkdirSync(dir);
    chmodSync(dir, 0o777);
    undo.push(() => rmSync(dir, { recursive: true, force: true }));
    await expect(redis.start()).rejects.toThrow('no one else may write to');
  });

  test('a state directory that cannot be made', async () => {
    writeFileSync(join(root, 'a file'), '');
    const { redis } = managed({ stateDir: join(root, 'a file', 'state') });
    await expect(redis.start()).rejects.toThrow(/the state directory .* cannot be used; choose another: ENOTDIR/);
    await redis.stop();
  });

  test('stop during start leaves nothing behind', async () => {
    const stateDir = folder();
    const { redis } = managed({ stateDir });
    const started = redis.start();
    started.catch(() => {});
    await until(() => existsSync(stateDir));
    await redis.stop();
    await expect(started).rejects.toThrow();
    expect(findManagedRedis(stateDir)).toBeUndefined();
    const next = managed({ stateDir });
    await next.redis.start();
  });

  test('what a Redis that does not start said is part of the error', async () => {
    const stateDir = folder();
    mkdirSync(join(stateDir, 'redis', 'appendonlydir'), { recursive: true });
    writeFileSync(join(stateDir, 'redis', 'appendonlydir', 'appendonly.aof.manifest'), 'broken\n');
    const { redis } = managed({ stateDir });
    await expect(redis.start()).rejects.toThrow(/did not start: it ended with 1\n.*AOF/s);
  });
});

describe('one daemon a state directory', () => {
  test('a second one is refused with the pid of the first, and let in when that has stopped', async () => {
    const stateDir = folder();
    const other = await daemon({ stateDir });
    const { redis } = managed({ stateDir });
    const refusal = await redis.start().catch((error) => error);
    expect(refusal).toBeInstanceOf(DirHeldError);
    expect(refusal.pid).toBe(other.process.pid);
    expect(refusal.message).toContain(String(other.process.pid));
    const exited = once(other.process, 'exit');
    other.process.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(sessionOf(other.pid)).toEqual([]);
    await managed({ stateDir }).redis.start();
  });

  test('a Redis left by kill -9 is adopted with its data', async () => {
    const stateDir = folder();
    const crashed = await daemon({ stateDir });
    const client = connect(join(stateDir, 'redis.sock'));
    await client.set('kept', 'yes');
    await killDaemon(crashed);
    const { redis, events } = managed({ stateDir, memoryBytes: 12_345_678 });
    await redis.start();
    expect(redis.pid).toBe(crashed.pid);
    expect(events).toEqual([{ kind: 'adopted', pid: crashed.pid, path: redis.path }]);
    expect(await client.get('kept')).toBe('yes');
    expect(((await client.config('GET', 'maxmemory')) as string[])[1]).toBe('12345678');

    // It is watched like one of our own, and ended like one.
    process.kill(crashed.pid, 'SIGKILL');
    await until(() => events.some(({ kind }) => kind === 'started'));
    expect(await client.get('kept')).toBe('yes');
    const pid = redis.pid!;
    expect(pid).not.toBe(crashed.pid);
    await redis.stop();
    expect(sessionOf(pid)).toEqual([]);
  });

  test('one whose record says another run_id is ended in order, not adopted', async () => {
    const stateDir = folder();
    const crashed = await daemon({ stateDir });
    await connect(join(stateDir, 'redis.sock')).set('kept', 'yes');
    await killDaemon(crashed);
    const record = join(stateDir, 'redis.json');
    writeFileSync(
      record,
      readFileSync(record, 'utf8')
        .replace(/"runId": "."/, '"runId": "~"')
        .replace(/("runId": ").*"/, '$1other"'),
    );
    const { redis } = managed({ stateDir });
    await redis.start();
    expect(redis.pid).not.toBe(crashed.pid);
    expect(await connect(redis.path).get('kept')).toBe('yes');
  });

  test('one that the directory does not know is left alone', async () => {
    const stateDir = folder();
    const stranger = await startRedis();
    undo.push(() => stranger.stop());
    mkdirSync(stateDir);
    symlinkSync(stranger.path, join(stateDir, 'redis.sock'));
    const { redis } = managed({ stateDir });
    await expect(redis.start()).rejects.toThrow(/does not know \(pid \d+\).*; stop it or choose another directory/);
    expect(await stranger.client().ping()).toBe('PONG');
  });

  test('a frozen one of ours is replaced', { timeout: 60_000 }, async () => {
    const stateDir = folder();
    const crashed = await daemon({ stateDir });
    await killDaemon(crashed);
    process.kill(crashed.pid, 'SIGSTOP');
    const { redis } = managed({ stateDir, stopMs: 200 });
    await redis.start();
    expect(redis.pid).not.toBe(crashed.pid);
    expect(sessionOf(crashed.pid)).toEqual([]);
  });
});

describe('when Redis dies under the daemon', () => {
  test('it is started again on the same path, with its data, and said', async () => {
    const { redis, events } = managed();
    await redis.start();
    const client = connect(redis.path);
    await client.set('kept', 'yes');
    const pid = redis.pid!;
    process.kill(pid, 'SIGKILL');
    await until(() => events.filter(({ kind }) => kind === 'started').length === 2);
    expect(events.map(({ kind }) => kind)).toEqual(['started', 'died', 'started']);
    expect(events[1]).toMatchObject({ pid, againInMs: 50 });
    expect(await client.get('kept')).toBe('yes');
  });

  test('attempts go on with growing pauses while it cannot start, and stop ends them', async () => {
    const { redis, events } = managed();
    await redis.start();
    const manifest = join(redis.stateDir, 'redis', 'appendonlydir', 'appendonly.aof.manifest');
    const good = readFileSync(manifest);
    writeFileSync(manifest, 'broken\n');
    process.kill(redis.pid!, 'SIGKILL');
    await until(() => events.filter(({ kind }) => kind === 'failed').length >= 2);
    const pauses = events.flatMap((event) => ('againInMs' in event ? [event.againInMs] : []));
    expect(pauses.slice(0, 3)).toEqual([50, 100, 100]);
    writeFileSync(manifest, good);
    await until(() => events.at(-1)?.kind === 'started');
    process.kill(redis.pid!, 'SIGKILL');
    await until(() => redis.pid === undefined);
    await redis.stop();
    expect(redis.pid).toBeUndefined();
  });

  test('one that does not end in time is killed', async () => {
    const { redis, events } = managed({ stopMs: 100 });
    await redis.start();
    const pid = redis.pid!;
    process.kill(pid, 'SIGSTOP');
    await redis.stop();
    expect(events.at(-1)).toEqual({ kind: 'killed', pid });
    expect(sessionOf(pid)).toEqual([]);
  });
});

describe('ephemeral', () => {
  test('writes nothing and leaves nothing', async () => {
    const stateDir = folder();
    const { redis } = managed({ stateDir, ephemeral: true });
    await redis.start();
    const client = connect(redis.path);
    expect(((await client.config('GET', 'appendonly')) as string[])[1]).toBe('no');
    await client.set('gone', 'soon');
    const pid = redis.pid!;
    expect(sessionOf(pid)).toHaveLength(2); // itself and its guardian
    await redis.stop();
    await until(() => sessionOf(pid).length === 0);
    expect(existsSync(stateDir)).toBe(false);
  });

  test('does not outlive kill -9 of the daemon, and neither does its guardian', async () => {
    const stateDir = folder();
    const { process: child, pid } = await daemon({ stateDir, ephemeral: true });
    expect(sessionOf(pid)).toHaveLength(2);
    await killDaemon({ process: child });
    await until(() => sessionOf(pid).length === 0 && !existsSync(stateDir));
  });

  test('leaves the data of a state directory that was there alone', async () => {
    const stateDir = folder();
    const lasting = managed({ stateDir });
    await lasting.redis.start();
    await connect(lasting.redis.path).set('kept', 'yes');
    await lasting.redis.stop();
    const { pid, process: child } = await daemon({ stateDir, ephemeral: true });
    const client = connect(join(stateDir, 'redis.sock'));
    expect(await client.get('kept')).toBeNull();
    await killDaemon({ process: child });
    await until(() => sessionOf(pid).length === 0);
    const again = managed({ stateDir });
    await again.redis.start();
    expect(await connect(again.redis.path).get('kept')).toBe('yes');
  });

  test('starts again, empty, when it dies, and its first guardian ends', async () => {
    const { redis, events } = managed({ ephemeral: true });
    await redis.start();
    const pid = redis.pid!;
    process.kill(pid, 'SIGKILL');
    await until(() => events.filter(({ kind }) => kind === 'started').length === 2);
    await until(() => sessionOf(pid).length === 0);
    expect(await connect(redis.path).dbsize()).toBe(0);
  });
});

describe('which server', () => {
  test.each([
    ['Redis', '7.0.0', true],
    ['Redis', '6.2.14', false],
    ['Redis', '8.0.1', true],
    ['Valkey', '7.2.4', true],
    ['Valkey', '7.0.9', false],
    ['Valkey', '8.1.0', true],
  ] as const)('%s %s', (product, version, fits) => {
    const check = () => checkVersion(product, version);
    if (fits) expect(check).not.toThrow();
    else
      expect(check).toThrow(`${product} ${version} is too old: Redis 7.0 or newer, or Valkey 7.2 or newer, is needed`);
  });

  function program(name: string, says: string): string {
    const dir = folder(`bin-${++folders}`);
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, name), `#!/bin/sh\necho '${says}'\n`, { mode: 0o755 });
    return join(dir, name);
  }

  test('a configured one, and one that is neither Redis nor Valkey', async () => {
    const valkey = program('valkey-server', 'Valkey server v=8.0.2 sha=0 malloc=libc bits=64');
    expect(await findServerBinary(valkey)).toEqual({ file: valkey, product: 'Valkey', version: '8.0.2' });
    await expect(findServerBinary(program('redis-server', 'hello'))).rejects.toThrow('does not say that it is a Redis');
    await expect(findServerBinary('/nowhere/redis-server')).rejects.toThrow(
      'redis.managed.binary names /nowhere/redis-server',
    );
  });

  test('an old redis-server is passed over for a valkey-server that fits', async () => {
    const old = program('redis-server', 'Redis server v=6.0.16 sha=0');
    const dir = join(old, '..');
    writeFileSync(join(dir, 'valkey-server'), '#!/bin/sh\necho "Valkey server v=8.0.2 sha=0"\n', { mode: 0o755 });
    expect((await findServerBinary(undefined, { PATH: dir })).file).toBe(join(dir, 'valkey-server'));
  });

  test('none: one line with the command to type', async () => {
    await expect(findServerBinary(undefined, { PATH: '/nowhere' }, [])).rejects.toThrow(
      /^no redis-server or valkey-server found; type: .*install.*$/,
    );
  });
});
