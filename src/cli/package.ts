import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the package, from src/ as from dist/src/. */
export function packageRoot(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json'))) dir = dirname(dir);
  return dir;
}

export function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { version: string };
  return version;
}

/** One word for a shell. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** How this program is called in another terminal: by its name where PATH knows it, else by its file. */
export function ownCommand(env = process.env): string {
  const file = join(packageRoot(), 'bin', 'signalbox.js');
  const isOurs = (dir: string): boolean => {
    try {
      return dir !== '' && realpathSync(join(dir, 'signalbox')) === realpathSync(file);
    } catch {
      return false;
    }
  };
  // npm puts node_modules/.bin into the PATH of its scripts, which no other terminal has.
  const dirs = (env.PATH ?? '').split(delimiter).filter((dir) => !dir.endsWith(join('node_modules', '.bin')));
  return dirs.some(isOurs) ? 'signalbox' : `node ${shellWord(file)}`;
}
