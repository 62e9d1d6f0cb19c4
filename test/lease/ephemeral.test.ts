import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';
import { fill, hold, refs } from './support.js';

const program = fileURLToPath(new URL('../../bin/signalbox.js', import.meta.url));
const dirs: string[] = [];
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

interface Own {
  readonly child: ChildProcess;
  readonly url: string;
  readonly dir: string;
}

/** `signalbox up --ephemeral` as a developer types it: no Redis anywhere but the one it brings. */
async function up(): Promise<Own> {
  const dir = mkdtempSync(join(tmpdir(), 'sb-eph-'));
  dirs.push(dir);
  const env = { PATH: process.env.PATH, HOME: dir, TMPDIR: dir };
  const child = spawn(process.execPath, [program, 'up', '--port', '0', '--ephemeral'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  process.once('exit', () => child.kill('SIGKILL'));
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (text += data));
  await until(() => /ws:\/\/[^\s"]+\/v1\/ws/.test(text) || child.exitCode !== null, 25_000);
  const url = /ws:\/\/[^\s"]+\/v1\/ws/.exec(text)?.[0];
  if (!url) throw new Error(`no daemon:\n${text}`);
  return { child, url, dir };
}

/** Processes that work in the directory: the Redis it started. */
function running(dir: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(dir);
    } catch {
      return false; // it has ended meanwhile
    }
  });
}

describe('R8: a queue in memory for development', () => {
  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'the same code on a Redis of its own; after %s nothing is left of it',
    async (signal) => {
      const { child, url, dir } = await up();
      const wire = await Wire.session(url, { agent: 'dev' });
      const queue = await fill(wire, 2);
      const tasks = await hold(wire, queue);
      expect((await wire.call('queue.complete', { tasks: refs(tasks) })).tasks).toEqual([
        { state: 'completed' },
        { state: 'completed' },
      ]);
      expect(running(dir).length).toBeGreaterThan(0);
      const exit = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
      child.kill(signal);
      expect(await exit).toBe(signal === 'SIGTERM' ? 0 : null);
      await until(() => running(dir).length === 0);
      await until(
        () =>
          readdirSync(dir, { recursive: true }).filter((name) => /redis|aof|rdb|sock/.test(String(name))).length === 0,
      );
    },
  );
});
