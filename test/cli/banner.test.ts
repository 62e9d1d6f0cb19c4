import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/until.js';
import { type Running, start } from './cli.js';

/** The banner promises that each of its lines works when pasted: here they are, in a shell, in another directory. */
let dir: string;
let daemon: Running;
let lines: string[];
const pasted: ChildProcess[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'sb-banner-'));
  daemon = start(['up', '--port', '0', '--state-dir', join(dir, "it's here")]);
  await daemon.until((out) => out.includes('--wait'));
  lines = daemon
    .out()
    .split('\n')
    .slice(
      daemon
        .out()
        .split('\n')
        .findIndex((line) => line.startsWith('Try')) + 1,
    );
});
afterAll(async () => {
  for (const child of pasted) child.kill('SIGKILL');
  daemon.process.kill('SIGTERM');
  await daemon.ended;
  rmSync(dir, { recursive: true, force: true });
});

function paste(line: string): { out: () => string; ended: Promise<number | null> } {
  let text = '';
  const { PATH, HOME } = process.env;
  const child = spawn('sh', ['-c', `exec ${line.trim()}`], { cwd: tmpdir(), env: { PATH, HOME } });
  pasted.push(child);
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (text += data));
  return { out: () => text, ended: once(child, 'close').then(([code]) => code as number | null) };
}

const lineWith = (word: string): string => lines.find((line) => line.includes(word))!;

test('the pair: work in one terminal, enqueue in another', async () => {
  const work = paste(lineWith(' work '));
  const enqueue = paste(lineWith(' enqueue '));
  expect(await enqueue.ended).toBe(0);
  expect(enqueue.out()).toMatch(/^3$/m);
  await until(() => work.out().includes('completed after'));
});

test('tail in one terminal, PUBLISH by redis-cli in another: the event arrives', async () => {
  const tail = paste(lineWith(' tail'));
  // From now on only: what comes before it is subscribed, it does not see.
  await until(async () => {
    const publish = paste(lineWith(' redis-cli '));
    expect(await publish.ended).toBe(0);
    return tail.out().includes('deploy.finished {"version":"1.2"}');
  });
});
