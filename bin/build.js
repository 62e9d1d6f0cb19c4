import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { modifiedAt, root } from './paths.js';

/**
 * Makes dist/ from the sources: tsc, then whatever is no TypeScript (the Lua scripts) beside it. Whether that is
 * needed is decided by modification times alone, because every `npm start` asks. Folders count too: that is how a
 * deleted source shows.
 */
const dist = join(root, 'dist');
const stamp = join(dist, '.built');
const lock = join(root, 'node_modules', '.cache', 'build.lock');
const sources = ['src', 'streams', 'tsconfig.json', 'tsconfig.build.json'].map((name) => join(root, name));

export function isStale() {
  const builtAt = modifiedAt(stamp);
  return sources.some((source) => [source, ...walk(source)].some((path) => modifiedAt(path) >= builtAt));
}

/**
 * `force` builds although nothing is newer. `tolerant` takes a build with type errors as long as tsc wrote its output.
 * Several processes may ask at once (a test run beside a start): one builds, the others wait and find it done.
 */
export async function build({ force = false, tolerant = false } = {}) {
  if (!force && !isStale()) return;
  const release = await takeLock();
  try {
    if (!force && !isStale()) return;
    const startedAt = new Date();
    // The build info lives in dist/, so that whoever deletes dist/ gets all of it back.
    const code = await compile(['-p', 'tsconfig.build.json', '--tsBuildInfoFile', join(dist, '.tsbuildinfo')]);
    if (code !== 0 && !(tolerant && code === 2)) throw new Error(`tsc ended with ${code}; what it said stands above`);
    copyAssets(join(root, 'src'));
    removeOrphans();
    writeFileSync(stamp, '');
    // A source saved while tsc ran is newer than this and built next time. A tolerated build is never fresh.
    utimesSync(stamp, startedAt, code === 0 ? startedAt : new Date(0));
  } finally {
    release();
  }
}

/** Runs tsc in the root and answers its exit code: 0 fine, 1 nothing written, 2 written in spite of type errors. */
export function compile(args) {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [tsc, ...args], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}

function copyAssets(folder) {
  for (const path of walk(folder)) {
    if (path.endsWith('.ts') || statSync(path).isDirectory()) continue;
    const target = join(dist, relative(root, path));
    const content = readFileSync(path);
    // Left alone when equal: a running daemon may be reading it.
    if (existsSync(target) && readFileSync(target).equals(content)) continue;
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, content);
  }
}

/** A file whose source is gone would still be found by whoever imports or lists it. */
function removeOrphans() {
  for (const folder of ['src', 'streams']) {
    for (const path of walk(join(dist, folder))) {
      const source = join(root, relative(dist, path)).replace(/(\.d\.ts|\.js)(\.map)?$/, '.ts');
      if (!existsSync(source)) rmSync(path, { recursive: true, force: true });
    }
  }
}

async function takeLock() {
  mkdirSync(dirname(lock), { recursive: true });
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      return () => rmSync(lock, { force: true });
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      if (!isAlive(lock)) rmSync(lock, { force: true });
      else await wait(50);
    }
  }
}

/** A lock is never older than a long build: that also covers a pid that somebody else has by now. */
function isAlive(file) {
  try {
    if (Date.now() - statSync(file).mtimeMs > 120_000) return false;
    const pid = Number(readFileSync(file, 'utf8'));
    if (pid > 0) process.kill(pid, 0); // empty while it is being written
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Everything below a folder, folders included; nothing for a file or what does not exist. */
function walk(folder) {
  let entries;
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? [path, ...walk(path)] : [path];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // Not awaited here: setup.js imports this file and would wait for it to finish first.
  import('./setup.js').then(({ prepare }) => prepare({ redis: false, force: true }));
}
