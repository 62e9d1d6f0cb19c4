import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './paths.js';
import { prepare } from './setup.js';

/** Sets up, then becomes vitest with whatever arguments were given (a file, `-t name`, a reporter). */
const args = await prepare({ args: process.argv.slice(2) });
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
process.chdir(root);
process.argv = [process.execPath, vitest, 'run', '--config', join('test', 'vitest.config.ts'), ...args];
await import(pathToFileURL(vitest).href);
