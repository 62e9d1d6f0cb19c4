import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { differences, failures, type Report } from '../src/cli/demo/verdict.js';

const entry = fileURLToPath(new URL('../bin/signalbox.js', import.meta.url));

const start = (...args: string[]): ChildProcess =>
  spawn(process.execPath, [entry, 'demo', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });

async function finish(child: ChildProcess): Promise<{ code: number | null; out: string; log: string }> {
  const texts = { out: '', log: '' };
  child.stdout?.on('data', (chunk) => {
    texts.out += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    texts.log += chunk;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...texts };
}

/** Pids of the direct children of a process, by /proc. */
function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid;
      } catch {
        return false; // It ended in this moment.
      }
    })
    .map(Number);
}

const good: Report = {
  documents: 500,
  results: 500,
  wrong: 0,
  duplicates: 0,
  lost: 0,
  redelivered: 4,
  redeliveredFromKilled: 2,
  redeliveredFromFrozen: 2,
  eventsSeen: 1500,
  eventsInLog: 1500,
  eventsOff: 0,
  published: ['batch.started', 'batch.finished'],
  killed: 'reader-3',
  frozen: 'reader-6',
  watcherCuts: 1,
  seconds: 10,
  served: 503,
  refused: 0,
  share: 0.94,
  aloneResults: 500,
  aloneServed: 500,
  aloneRefused: 800,
  aloneShare: 0.87,
  aloneSeconds: 11,
};

/**
 * A rate that half of the documents fill, so that there is something to wait for, and that for two short minutes. Beside
 * other test files a call may be 0.4 s longer on its way than the next one; a twentieth of the minute must be more.
 */
const hurried = ['--documents', '500', '--think-ms', '60', '--rate', '249', '--minute-ms', '12000'];

describe('npm run demo', () => {
  // One after the other: the two would take the time from each other that the model's rate is measured by.
  it('[R25] 500 documents, 10 agents, a model with a rate, one killed, one frozen, a watcher cut: everything holds, and the table says so', async () => {
    const { code, out, log } = await finish(start(...hurried));
    expect(log + out).not.toContain('does not hold');
    expect(code).toBe(0);
    const cell = (name: string): string => new RegExp(`^${name} +(\\S+)$`, 'm').exec(out)?.[1] ?? '';
    expect(cell('documents')).toBe('500');
    expect(cell('results')).toBe('500');
    expect(cell('duplicates accepted')).toBe('0');
    expect(cell('lost')).toBe('0');
    expect(Number(cell('redelivered'))).toBeGreaterThan(0);
    expect(cell('events seen by the watcher')).toBe(cell('events in the log'));
    expect(Number(cell('tasks/s'))).toBeGreaterThan(0);
    expect(log).toMatch(/\d+\/500 read/);
    const pair = (name: string): number[] =>
      (new RegExp(`^${name} +(\\d+)%? +(\\d+)%?$`, 'm').exec(out) ?? []).slice(1).map(Number);
    const [answered, refused, share] = ['answered', 'refused with 429', 'share of the quota used'].map(pair);
    expect(answered![0]).toBeGreaterThanOrEqual(500);
    expect(answered![1]).toBeGreaterThanOrEqual(500);
    expect(refused![0]).toBe(0);
    expect(refused![1]).toBeGreaterThan(0);
    expect(share![0]).toBeGreaterThanOrEqual(90);
  }, 120_000);

  it('fewer documents than it promises is a failure that is named', async () => {
    const rate = ['--rate', '19', '--minute-ms', '8000'];
    const { code, out } = await finish(start('--documents', '40', '--think-ms', '300', ...rate, '--json'));
    expect(code).toBe(1);
    const { documents, results, failures } = JSON.parse(out) as Report & { failures: string[] };
    expect({ documents, results }).toEqual({ documents: 40, results: 40 });
    expect(failures).toEqual(['only 40 documents; the demo reads at least 500']);
  }, 120_000);

  it.skipIf(process.platform !== 'linux')(
    'Ctrl-C ends every process it started',
    async () => {
      const child = start('--documents', '500');
      const done = finish(child);
      let children: number[] = [];
      // The daemon and ten agents.
      while (children.length < 11 && child.exitCode === null) {
        await wait(50);
        children = childrenOf(child.pid!);
      }
      child.kill('SIGINT');
      expect((await done).code).toBe(130);
      await expect
        .poll(() => children.filter((pid) => readdirSync('/proc').includes(String(pid))), { timeout: 5000 })
        .toEqual([]);
    },
    60_000,
  );
});

describe('the verdict', () => {
  it('is empty only if everything held', () => {
    expect(failures(good)).toEqual([]);
  });

  it.each<[keyof Report, Partial<Report>]>([
    ['documents', { documents: 499, results: 499, aloneResults: 499 }],
    ['results', { results: 499 }],
    ['wrong', { wrong: 1 }],
    ['duplicates', { duplicates: 1 }],
    ['lost', { lost: 1 }],
    ['redeliveredFromKilled', { redeliveredFromKilled: 0 }],
    ['redeliveredFromFrozen', { redeliveredFromFrozen: 0 }],
    ['eventsSeen', { eventsSeen: 1499 }],
    ['eventsOff', { eventsOff: 1 }],
    ['published', { published: ['batch.started'] }],
    ['killed', { killed: '' }],
    ['frozen', { frozen: '' }],
    ['watcherCuts', { watcherCuts: 0 }],
    ['served', { served: 499 }],
    ['refused', { refused: 1 }],
    ['share', { share: 0.89 }],
    ['aloneResults', { aloneResults: 499 }],
    ['aloneRefused', { aloneRefused: 0 }],
  ])('%s can fail it', (_, broken) => {
    expect(failures({ ...good, ...broken })).toHaveLength(1);
  });

  it('a record that misses, doubles or turns round events differs from the log', () => {
    expect(differences([1, 2, 3], [1, 2, 3])).toBe(0);
    expect(differences([1, 3], [1, 2, 3])).toBeGreaterThan(0);
    expect(differences([1, 2, 2, 3], [1, 2, 3])).toBeGreaterThan(0);
    expect(differences([1, 3, 2], [1, 2, 3])).toBe(2);
  });
});
