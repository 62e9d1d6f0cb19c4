import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeDir } from '../../src/lib/make-dir.js';

test('makes what is missing, and is content with what is there', () => {
  const top = mkdtempSync(join(tmpdir(), 'sb-dir-'));
  const dir = join(top, 'a', 'b');
  makeDir(dir, 0o700);
  makeDir(dir, 0o700);
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  rmSync(top, { recursive: true });
});

test.runIf(process.platform === 'linux')('fails at once where no directory can be made', () => {
  expect(() => makeDir('/proc/nope/state', 0o700)).toThrow(/ENOENT|EACCES|EPERM/);
});
