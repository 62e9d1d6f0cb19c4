import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './support/longest-first.js';

/**
 * The only test configuration. Every file starts the redis-servers and daemons it needs itself (test/support), so
 * files run side by side without sharing anything. Three workers: a file mostly waits for what it started, and on two
 * processors a third one fills these waits. Files of one worker share what they import, so that it is loaded once.
 */
export default defineConfig({
  root: fileURLToPath(new URL('..', import.meta.url)),
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    isolate: false,
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    testTimeout: 30_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
  },
});
