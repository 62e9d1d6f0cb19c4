import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/**
 * The only test configuration. Every file starts the redis-servers and daemons it needs itself (test/support), so
 * files run side by side without sharing anything; two workers keep a small machine honest about time.
 */
export default defineConfig({
  root: fileURLToPath(new URL('..', import.meta.url)),
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
  },
});
