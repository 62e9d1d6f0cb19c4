import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeProject } from '../support/project.js';

const run = promisify(execFile);
let project: ReturnType<typeof makeProject>;
let dist: (path: string) => string;

beforeEach(() => {
  project = makeProject({ 'src/one.ts': 'export const one: number = 1;\n', 'src/lua/one.lua': 'return 1\n' });
  dist = (path) => join(project.dir, 'dist', path);
});
afterEach(() => project.remove());

function build(options: object = {}): Promise<unknown> {
  const url = pathToFileURL(join(project.dir, 'bin', 'build.js')).href;
  const code = `(await import(${JSON.stringify(url)})).build(${JSON.stringify(options)})`;
  return run(process.execPath, ['--input-type=module', '-e', code]);
}

/** A moment later than anything written so far, for file systems with coarse times. */
function touch(path: string, secondsAhead = 0): void {
  const at = new Date(Date.now() + secondsAhead * 1000);
  utimesSync(join(project.dir, path), at, at);
}

test('tsc and the files beside it; nothing is done while nothing is newer', async () => {
  await build();
  expect(readFileSync(dist('src/one.js'), 'utf8')).toContain('export const one = 1;');
  expect(readFileSync(dist('src/lua/one.lua'), 'utf8')).toBe('return 1\n');
  const builtAt = statSync(dist('.built')).mtimeMs;
  await build();
  expect(statSync(dist('.built')).mtimeMs).toBe(builtAt);
  project.write('src/lua/one.lua', 'return 2\n');
  await build();
  expect(readFileSync(dist('src/lua/one.lua'), 'utf8')).toBe('return 2\n');
});

test('what lost its source goes from dist, and dist comes back whole when it was deleted', async () => {
  project.write('src/two.ts', 'export const two = 2;\n');
  await build();
  expect(existsSync(dist('src/two.js'))).toBe(true);
  rmSync(join(project.dir, 'src/two.ts'));
  rmSync(join(project.dir, 'src/lua'), { recursive: true });
  await build();
  for (const gone of ['two.js', 'two.d.ts', 'two.js.map', 'lua']) expect(existsSync(dist(`src/${gone}`))).toBe(false);
  rmSync(join(project.dir, 'dist'), { recursive: true });
  await build();
  expect(existsSync(dist('src/one.js'))).toBe(true);
});

test('a type error fails the build; a tolerant one goes on but is never taken for fresh', async () => {
  project.write('src/one.ts', 'export const one: string = 1;\n');
  await expect(build()).rejects.toThrow('tsc ended with 2');
  await build({ tolerant: true });
  expect(existsSync(dist('src/one.js'))).toBe(true);
  await expect(build()).rejects.toThrow('tsc ended with 2');
});

test('npm run build builds always, and says so by its exit code', async () => {
  await run('npm', ['run', '-s', 'build'], { cwd: project.dir });
  expect(existsSync(dist('src/one.js'))).toBe(true);
  project.write('src/one.ts', 'export const one: string = 1;\n');
  await expect(run('npm', ['run', '-s', 'build'], { cwd: project.dir })).rejects.toMatchObject({ code: 1 });
});

test('several at once do not disturb each other; the lock of a dead one is no obstacle', async () => {
  const lock = join(project.dir, 'node_modules/.cache/build.lock');
  mkdirSync(join(lock, '..'), { recursive: true });
  writeFileSync(lock, String(2 ** 30));
  await Promise.all([build(), build(), build()]);
  expect(existsSync(lock)).toBe(false);
  writeFileSync(lock, String(process.pid)); // alive, but too old to be a build
  touch('node_modules/.cache/build.lock', -600);
  await build({ force: true });
  expect(existsSync(dist('src/one.js'))).toBe(true);
});
