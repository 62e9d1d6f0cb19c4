import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compile } from './build.js';
import { root } from './paths.js';
import { prepare } from './setup.js';

/**
 * Sets up, compiles test/bench and what it imports into a folder of its own (daemons and tests that run meanwhile read
 * the rest of dist/), and becomes its run.ts.
 */
const args = await prepare({ args: process.argv.slice(2) });
const out = join(root, 'dist', 'bench');
const code = await compile(['-p', join('test', 'bench'), '--tsBuildInfoFile', join(out, '.tsbuildinfo')]);
if (code !== 0) process.exit(code);
const bench = join(out, 'test', 'bench', 'run.js');
process.argv = [process.execPath, bench, ...args];
await import(pathToFileURL(bench).href);
