import { join } from 'node:path';
import { root } from './paths.js';
import { prepare } from './setup.js';

/** Sets up, then runs test/simulation/main.ts from its source: the daemons it starts run dist/, as in the tests. */
const args = await prepare({ args: process.argv.slice(2) });
process.chdir(root);
process.argv = [process.execPath, join(root, 'test', 'simulation', 'main.ts'), ...args];
const { runnerImport } = await import('vite');
await runnerImport(join(root, 'test', 'simulation', 'main.ts'), { root, configFile: false, logLevel: 'error' });
