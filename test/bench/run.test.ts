import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { lines } from './lines.js';

const bench = fileURLToPath(new URL('../../bin/bench.js', import.meta.url));
const run = promisify(execFile);

/** Two lines of the queue stand for all of them: the others are the same to run. */
const wanted = lines.filter(({ id, subject }) => subject !== 'queue' || id === 'latency' || id === 'admission');

test('every line runs with all its processes, and each row has a figure', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sb-bench-test-'));
  try {
    const json = join(dir, 'results.json');
    const only = wanted.flatMap(({ id }) => ['--only', id]);
    const { stdout } = await run(process.execPath, [bench, '--smoke', ...only, '--json', json], { timeout: 110_000 });
    const { results, settings } = JSON.parse(readFileSync(json, 'utf8'));
    const rows = wanted.flatMap(({ id, rows }) => rows.map(({ value, title }) => ({ line: id, value, title })));
    expect(results).toMatchObject(rows);
    for (const { line, value, signalbox } of results) expect(signalbox.median, `${line} ${value}`).toBeTypeOf('number');
    for (const { title } of rows) expect(stdout).toContain(title);
    const besideWs = results.filter(({ beside, value }: Record<string, string>) => beside === 'ws' && value === 'rate');
    for (const { rival } of besideWs) expect(rival.median).toBeGreaterThan(0);
    expect(settings.plan.subscribers).toBeGreaterThan(0);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}, 120_000);

test('a line that does not exist is refused with those that do', async () => {
  const failed = await run(process.execPath, [bench, '--only', 'nothing']).catch((error) => error);
  expect(failed.code).toBe(1);
  expect(failed.stderr).toContain('fan-out');
});
