import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { identityOf } from '../../src/lib/process-identity.js';
import { makeProject } from '../support/project.js';
import { until } from '../support/until.js';

// Stands for the daemon: says with what it was started, and stops in order on a signal. It says so last of all, for whoever
// reads it may send the signal at once.
const main = `for (const name of ['SIGTERM', 'SIGINT'] as const)
  process.on(name, () => { console.log('stopped by ' + name); process.exit(0); });
setInterval(() => {}, 1000);
console.log('up ' + JSON.stringify({ argv: process.argv.slice(1), pid: process.pid }));
`;
let project: ReturnType<typeof makeProject>;
beforeAll(() => {
  project = makeProject({ 'src/cli/main.ts': main });
});
afterAll(() => project.remove());

interface Started {
  npm: ChildProcess;
  lines: string[];
  argv: string[];
  pid: number;
  tookMs: number;
}

async function npm(...args: string[]): Promise<Started> {
  const since = performance.now();
  const child = spawn('npm', args, { cwd: project.dir, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  const lines: string[] = [];
  createInterface(child.stdout).on('line', (line) => lines.push(line));
  await until(() => lines.some((line) => line.startsWith('up ')));
  const { argv, pid } = JSON.parse(lines.find((line) => line.startsWith('up '))!.slice(3));
  return { npm: child, lines, argv, pid, tookMs: performance.now() - since };
}

test('npm start builds, and becomes `signalbox up`; SIGTERM to npm reaches it and npm ends with 0', async () => {
  const first = await npm('start', '--', '--port', '0', '--install');
  expect(first.argv).toEqual([join(project.dir, 'bin', 'signalbox.js'), 'up', '--port', '0']);
  const exited = once(first.npm, 'exit');
  first.npm.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
  await until(() => identityOf(first.pid) === undefined);
  await until(() => first.lines.at(-1) === 'stopped by SIGTERM');
});

test('the second start takes less than 3 s; Ctrl-C at a terminal reaches the whole group', async () => {
  const second = await npm('start');
  expect(second.tookMs).toBeLessThan(3000);
  const exited = once(second.npm, 'exit');
  process.kill(-second.npm.pid!, 'SIGINT');
  await exited;
  await until(() => identityOf(second.pid) === undefined);
  await until(() => second.lines.includes('stopped by SIGINT'));
});

test('npm run demo becomes `signalbox demo`', async () => {
  const demo = await npm('run', 'demo', '--', '--json');
  expect(demo.argv.slice(1)).toEqual(['demo', '--json']);
  const exited = once(demo.npm, 'exit');
  demo.npm.kill('SIGTERM');
  await exited;
});

test('bin/signalbox.js says what to do when nothing is built', async () => {
  const empty = makeProject({});
  try {
    const child = spawn(process.execPath, [join(empty.dir, 'bin', 'signalbox.js'), 'up'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const said: string[] = [];
    child.stderr.on('data', (data) => said.push(String(data)));
    expect(await once(child, 'close')).toEqual([1, null]);
    expect(said.join('')).toBe('signalbox is not built yet; type: npm run build\n');
  } finally {
    empty.remove();
  }
});
