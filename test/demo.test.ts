import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { differences, failures, type Report } from '../src/cli/demo/verdict.js';

const entry = fileURLToPath(new URL('../bin/signalbox.js', import.meta.url));

describe('the demo', () => {
  test('reads 500 documents with ten agents, loses nothing, accepts nothing twice, and sees the whole log', {
    timeout: 120_000,
  }, async () => {
    const child = spawn(process.execPath, [entry, 'demo', '--json', '--think-ms', '60'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    child.stdout.on('data', (data) => {
      out += data;
    });
    child.stderr.on('data', (data) => {
      err += data;
    });
    const [code] = await once(child, 'close');
    const report = JSON.parse(out) as Report & { failures: string[] };
    expect(report.failures, err).toEqual([]);
    expect(code).toBe(0);
    expect(report).toMatchObject({ documents: 500, results: 500, wrong: 0, duplicates: 0, lost: 0, eventsOff: 0 });
    expect(report.eventsSeen).toBe(report.eventsInLog);
    expect(report.redelivered).toBeGreaterThan(0);
  });
});

describe('the verdict of the demo', () => {
  const good: Report = {
    documents: 500,
    results: 500,
    wrong: 0,
    duplicates: 0,
    lost: 0,
    redelivered: 3,
    eventsSeen: 1500,
    eventsInLog: 1500,
    eventsOff: 0,
    published: ['batch.started', 'batch.finished'],
    killed: 'a',
    frozen: 'b',
    watcherCuts: 1,
    seconds: 9,
  };
  test('holds when everything held', () => expect(failures(good)).toEqual([]));
  test.each<Partial<Report>>([
    { documents: 499 },
    { results: 499 },
    { wrong: 1 },
    { duplicates: 1 },
    { lost: 1 },
    { redelivered: 0 },
    { eventsSeen: 1499 },
    { eventsOff: 1 },
    { published: ['batch.started'] },
    { killed: '' },
    { frozen: '' },
    { watcherCuts: 0 },
  ])('fails for %j', (broken) => expect(failures({ ...good, ...broken })).not.toEqual([]));
  test('counts what is missing, doubled and out of order between the record and the log', () => {
    expect(differences([1, 2, 3], [1, 2, 3])).toBe(0);
    expect(differences([1, 3], [1, 2, 3])).toBeGreaterThan(0);
    expect(differences([1, 2, 2, 3], [1, 2, 3])).toBeGreaterThan(0);
    expect(differences([2, 1, 3], [1, 2, 3])).toBe(2);
  });
});
