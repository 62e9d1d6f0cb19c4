import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compile } from './build.js';
import { root } from './paths.js';
import { prepare } from './setup.js';

/** Sets up, compiles test/bench beside the rest of dist/, and becomes its run.ts. */
const args = await prepare({ args: process.argv.slice(2) });
const code = await compile(['-p', join('test', 'bench'), '--tsBuildInfoFile', join('dist', '.bench.tsbuildinfo')]);
if (code !== 0) process.exit(code);
const bench = join(root, 'dist', 'test', 'bench', 'run.js');
process.argv = [process.execPath, bench, ...args];
await import(pathToFileURL(bench).href);
