import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a directory and what is missing above it, one step at a time. `mkdirSync` with `recursive` never comes back
 * where making a directory fails with ENOENT although its parent exists, as below /proc: it goes on trying.
 */
export function makeDir(dir: string, mode: number): void {
  const missing: string[] = [];
  for (let at = dir; !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.push(at);
  for (const step of missing.reverse()) {
    try {
      mkdirSync(step, { mode });
    } catch (error) {
      // Somebody else may have made it meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}
