import { createHash } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeDir } from '../lib/make-dir.js';

// The address of a Unix socket is a field of 108 bytes (104 on BSDs), its end mark included.
const longest = process.platform === 'linux' ? 107 : 103;
const fits = (path: string): boolean => Buffer.byteLength(path) <= longest;

/**
 * Where the managed Redis of a state directory listens: in it, or, when that path is too long for a socket, in a
 * short runtime directory named after it, so that every process of the user comes to the same answer.
 */
export function socketPath(stateDir: string, env = process.env): string {
  const inside = join(stateDir, 'redis.sock');
  if (fits(inside)) return inside;
  const name = `signalbox-${createHash('sha256').update(stateDir).digest('hex').slice(0, 16)}`;
  const parents = [env.XDG_RUNTIME_DIR, tmpdir(), '/tmp'].filter((parent) => parent !== undefined && parent !== '');
  const path = parents.map((parent) => join(parent as string, name, 'redis.sock')).find(fits);
  if (path === undefined) throw new Error(`no directory with a path short enough for the socket of ${stateDir}`);
  return path;
}

/**
 * Creates the directory of the socket. In a temporary directory anyone may have made one of that name before us, to
 * sit between the daemon and its Redis: only one that is ours alone is used.
 */
export function prepareSocketDir(path: string): void {
  const dir = dirname(path);
  makeDir(dir, 0o700);
  const { uid, mode } = lstatSync(dir);
  const foreign = process.getuid !== undefined && uid !== process.getuid();
  if (!lstatSync(dir).isDirectory() || foreign || (mode & 0o022) !== 0)
    throw new Error(`${dir} has to be a directory that belongs to this user and that no one else may write to`);
}
