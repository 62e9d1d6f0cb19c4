import { readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from './build.js';
import { ensureRedis } from './install-redis.js';
import { modifiedAt, root } from './paths.js';
import { run } from './run.js';

/**
 * What stands between a fresh clone and a running program, done by every npm script that needs it and skipped in
 * milliseconds when it is there: Node's version, dependencies, a Redis binary, the build. Only Node's own modules are
 * used in bin/, because nothing else is there yet.
 */
export async function prepare({ args = [], redis = true, force = false } = {}) {
  try {
    if (Number(process.versions.node.split('.')[0]) < 20)
      throw new Error(`Node ${process.versions.node} is too old: Signalbox needs Node 20 or newer`);
    await ensureDependencies();
    if (redis) await ensureRedis({ wantsInstall: args.includes('--install') });
    await build({ force });
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
  return args.filter((arg) => arg !== '--install');
}

async function ensureDependencies() {
  const lockfile = join(root, 'package-lock.json');
  const installed = join(root, 'node_modules', '.package-lock.json');
  if (modifiedAt(installed) >= modifiedAt(lockfile)) return;
  if (isInstalled(lockfile, installed)) {
    // Only the time is newer, as after a checkout: remember that it was looked at.
    utimesSync(installed, new Date(), new Date());
    return;
  }
  console.error('Installing dependencies (npm ci) …');
  // Under npm the running one is used, whatever PATH says. The build needs the development dependencies always.
  const npm = process.env.npm_execpath;
  const command = ['ci', '--include=dev', '--no-audit', '--no-fund'];
  if (npm?.endsWith('.js')) await run(process.execPath, [npm, ...command], { cwd: root });
  else await run('npm', command, { cwd: root });
}

/** True when everything the lockfile asks for on this platform is there in that version. */
export function isInstalled(lockfile, installed) {
  try {
    const packages = (file) => JSON.parse(readFileSync(file, 'utf8')).packages;
    const there = packages(installed);
    return Object.entries(packages(lockfile)).every(
      ([path, { version, optional }]) =>
        path === '' || (there[path] === undefined ? optional === true : there[path].version === version),
    );
  } catch {
    return false;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await prepare({ args: process.argv.slice(2) });
