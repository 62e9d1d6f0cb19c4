import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

// dist/bench/test/bench/daemon.js
export const root = fileURLToPath(new URL('../../../..', import.meta.url));

/** BullMQ keeps every finished job unless told otherwise; so does the daemon here. */
export const daemonSettings = {
  SIGNALBOX_QUEUE_COMPLETED_COUNT: '10000000',
  SIGNALBOX_OPS_LOG_LEVEL: 'warn',
} as const;

export interface BenchDaemon {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** The real daemon, built code, in a process of its own. */
export async function startDaemon(redisPath: string, profileDir: string | undefined): Promise<BenchDaemon> {
  const stateDir = mkdtempSync(join(tmpdir(), 'sb-bench-state-'));
  const profile = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}/daemon`];
  const args = ['up', '--port', '0', '--state-dir', stateDir, '--redis-url', `unix://${redisPath}`];
  const child = spawn(process.execPath, [...profile, join(root, 'bin', 'signalbox.js'), ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...daemonSettings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = (): void => void child.kill('SIGKILL');
  process.once('exit', end);
  let text = '';
  const url = await new Promise<string>((resolve, reject) => {
    const read = (data: Buffer): void => {
      text += data;
      const found = /ws:\/\/[^\s"]+\/v1\/ws/.exec(text);
      if (found) resolve(found[0]);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('exit', (code) => reject(new Error(`the daemon ended with ${code}:\n${text}`)));
  });
  const gone = once(child, 'exit');
  return {
    url,
    pid: child.pid!,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
      await gone;
      process.off('exit', end);
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
}
