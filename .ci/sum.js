import { readFileSync } from 'node:fs';

/**
 * Adds up the parts of .ci/run, given as pairs of exit code and result file. A part that failed without saying in
 * which test (it did not start, it crashed) counts as one failure, so that 0 failed always means that all is well.
 */
let passed = 0;
let failed = 0;
const parts = process.argv.slice(2);
for (let i = 0; i < parts.length; i += 2) {
  const code = Number(parts[i]);
  let result = {};
  try {
    result = JSON.parse(readFileSync(parts[i + 1], 'utf8'));
  } catch {
    // Counted below, by its exit code.
  }
  passed += result.numPassedTests ?? result.passed ?? 0;
  const told = result.numFailedTests ?? result.failed ?? 0;
  const silent = told === 0 && (code !== 0 || result.numPassedTests === 0 || Object.keys(result).length === 0);
  failed += told + (silent ? 1 : 0);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
