import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '../../src/redis/guardian.js';
import { startRedis, type TestRedis } from './redis.js';
import { Wire } from './wire.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface TestDaemon {
  readonly url: string;
  readonly http: string;
  readonly pid: number;
  readonly process: ChildProcess;
  /** What it wrote to standard output and standard error. */
  output(): string;
  wire(): Promise<Wire>;
  session(params?: Record<string, unknown>): ReturnType<typeof Wire.session>;
  /** SIGTERM, and the exit code. */
  stop(): Promise<number | null>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

export interface World {
  readonly redis: TestRedis;
  readonly daemon: TestDaemon;
  /** Another daemon on the same Redis. */
  another(settings?: Settings): Promise<TestDaemon>;
  stop(): Promise<void>;
}

/** Settings by path, e.g. `{ 'session.ttlMinMs': 100 }`. */
export type Settings = Readonly<Record<string, string | number | boolean>>;

/** Every duration shrunk: what scenarios measure in seconds happens in tenths. A test names what it needs otherwise. */
export const quick: Settings = {
  'session.ttlMinMs': 50,
  'session.graceMs': 300,
  'sweep.everyMs': 50,
  'log.readBlockMs': 200,
  'gateway.drainMs': 100,
  'ops.logLevel': 'warn',
};

const envName = (path: string): string =>
  `SIGNALBOX_${path
    .replace(/[.]/g, '_')
    .replace(/([A-Z])/g, '_$1')
    .toUpperCase()}`;

/** A daemon of its own process, built code, on a port that was free. Ends with `stop`, `kill` or the test process. Redis by socket path or URL. */
export async function startDaemon(redisPath: string, settings: Settings = {}): Promise<TestDaemon> {
  const stateDir = mkdtempSync(join(tmpdir(), 'sb-state-'));
  const env: NodeJS.ProcessEnv = { PATH: process.env.PATH, HOME: process.env.HOME };
  const all: Settings = { ...quick, ...settings };
  for (const [path, value] of Object.entries(all)) env[envName(path)] = String(value);
  const args = [
    'up',
    '--port',
    '0',
    '--state-dir',
    stateDir,
    '--redis-url',
    redisPath.includes('://') ? redisPath : `unix://${redisPath}`,
  ];
  // A test that times out, or is killed, must not leave its daemon running.
  const entry = [join(root, 'bin/signalbox.js'), ...args];
  const child = spawnGuarded(process.execPath, entry, { cwd: root, env, output: 'pipe', removes: [stateDir] });
  let text = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (data: Buffer): void => {
      text += data;
      const found = /ws:\/\/[^\s"]+\/v1\/ws/.exec(text);
      if (found) resolve(found[0]);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', (code) => reject(new Error(`the daemon ended with ${code}:\n${text}`)));
  });
  const exit = once(child, 'exit');
  const gone = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal);
      await exit;
    }
    rmSync(stateDir, { recursive: true, force: true });
    return child.exitCode;
  };
  const wires = new Set<Wire>();
  const track = <T extends Wire>(wire: T): T => {
    wires.add(wire);
    return wire;
  };
  return {
    url,
    http: url.replace('ws://', 'http://').replace('/v1/ws', ''),
    pid: child.pid ?? 0,
    process: child,
    output: () => text,
    wire: async () => track(await Wire.open(url)),
    session: async (params) => track(await Wire.session(url, params)),
    async stop() {
      for (const wire of wires) wire.cut();
      return gone('SIGTERM');
    },
    kill: async () => void (await gone('SIGKILL')),
  };
}

/** A Redis and a daemon on it. */
export async function startWorld(settings: Settings = {}, redisArgs: readonly string[] = []): Promise<World> {
  const redis = await startRedis({ args: redisArgs });
  const daemons: TestDaemon[] = [];
  const another = async (more: Settings = {}): Promise<TestDaemon> => {
    const daemon = await startDaemon(redis.path, { ...settings, ...more });
    daemons.push(daemon);
    return daemon;
  };
  const daemon = await another().catch(async (error) => {
    await redis.stop();
    throw error;
  });
  return {
    redis,
    daemon,
    another,
    async stop() {
      await Promise.all(daemons.map((one) => one.stop()));
      await redis.stop();
    },
  };
}
