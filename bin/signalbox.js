#!/usr/bin/env node
import { existsSync } from 'node:fs';

/** The command `signalbox`. The program itself is TypeScript; this file only finds what was built of it. */
const main = new URL('../dist/src/cli/main.js', import.meta.url);

if (existsSync(main)) {
  await import(main.href);
} else {
  console.error('signalbox is not built yet; type: npm run build');
  process.exitCode = 1;
}
