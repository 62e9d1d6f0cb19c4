import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './paths.js';
import { prepare } from './setup.js';

/**
 * Sets up, then becomes `signalbox <command> …` in this very process: npm and the shell in between pass a signal on to
 * one process only, and that has to be the one that ends daemon and Redis in order.
 */
export async function becomeCli(command) {
  const args = await prepare({ args: process.argv.slice(2) });
  process.argv = [process.execPath, join(root, 'bin', 'signalbox.js'), command, ...args];
  await import(pathToFileURL(join(root, 'dist', 'src', 'cli', 'main.js')).href);
}
