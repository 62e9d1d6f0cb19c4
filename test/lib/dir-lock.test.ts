import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { DirHeldError, DirLock } from '../../src/lib/dir-lock.js';
import { identityOf, isRunning, signal } from '../../src/lib/process-identity.js';

const root = mkdtempSync(join(tmpdir(), 'sb-lock-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const folder = () => mkdtempSync(join(root, 'd-'));
const highest = (dir: string) => readdirSync(dir).sort().at(-1);

test('held until released, by anyone', () => {
  const dir = folder();
  const lock = DirLock.acquire(dir);
  expect(() => DirLock.acquire(dir)).toThrow(DirHeldError);
  expect(() => DirLock.acquire(dir)).toThrow(`in use by the process ${process.pid}`);
  lock.release();
  DirLock.acquire(dir).release();
  expect(readdirSync(dir)).toHaveLength(1);
});

test.each([
  ['a dead pid', { pid: 2 ** 30, started: 'then' }],
  ['a pid that somebody else has by now', { pid: process.pid, started: 'before' }],
  ['an older boot', { pid: process.pid, started: `another-boot/${identityOf(process.pid)?.started.split('/')[1]}` }],
])('taken over from %s', (_, holder) => {
  const dir = folder();
  writeFileSync(join(dir, 'lock.7'), JSON.stringify(holder));
  const lock = DirLock.acquire(dir);
  expect(readdirSync(dir)).toEqual(['lock.8']);
  expect(JSON.parse(readFileSync(join(dir, 'lock.8'), 'utf8'))).toEqual(identityOf(process.pid));
  lock.release();
});

test('taken over from a damaged file, and released into a directory that is gone', () => {
  const dir = folder();
  writeFileSync(join(dir, 'lock.1'), '');
  const lock = DirLock.acquire(dir);
  expect(highest(dir)).toBe('lock.2');
  rmSync(dir, { recursive: true });
  lock.release();
});

test('of many processes that find a stale lock at once, one gets it, round after round', {
  timeout: 60_000,
}, async () => {
  const dir = folder();
  const url = new URL('../../dist/src/lib/dir-lock.js', import.meta.url).href;
  const worker = join(root, 'worker.mjs');
  // Each waits for the word, tries once, answers, and dies holding what it got, by SIGKILL.
  writeFileSync(
    worker,
    `import { DirLock } from ${JSON.stringify(url)};
     process.on('message', () => {
       let got = false;
       try { DirLock.acquire(${JSON.stringify(dir)}); got = true; } catch (error) { if (error.name !== 'DirHeldError') throw error; }
       process.send(got);
     });
     process.send('ready');`,
  );
  for (let round = 0; round < 4; round++) {
    const children = Array.from({ length: 6 }, () => fork(worker));
    await Promise.all(children.map((child) => once(child, 'message')));
    const answers = children.map((child) => once(child, 'message'));
    for (const child of children) child.send('go');
    expect((await Promise.all(answers)).filter(([got]) => got)).toHaveLength(1);
    const exits = children.map((child) => once(child, 'exit'));
    for (const child of children) child.kill('SIGKILL');
    await Promise.all(exits);
  }
});

test('an identity is a pid and its start; a signal never reaches another process of that pid', () => {
  const self = identityOf(process.pid)!;
  expect(isRunning(self)).toBe(true);
  expect(isRunning({ ...self, started: 'before' })).toBe(false);
  expect(identityOf(2 ** 30)).toBeUndefined();
  signal({ ...self, started: 'before' }, 'SIGKILL');
});
