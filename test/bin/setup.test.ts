import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, describe, expect, test } from 'vitest';
import { identityOf } from '../../src/lib/process-identity.js';
import { until } from '../support/until.js';

// bin/ is plain JavaScript without types.
const bin = (name: string) => import(new URL(`../../bin/${name}`, import.meta.url).href);
const { decide } = await bin('install-redis.js');
const { isInstalled } = await bin('setup.js');

const dir = mkdtempSync(join(tmpdir(), 'sb-setup-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe('a missing Redis', () => {
  const here = {
    present: false,
    isRoot: false,
    hasTerminal: true,
    hasApt: true,
    hasSudo: true,
    wantsInstall: false,
    script: 'start',
  };

  test.each([
    ['is not missing', { present: true }, 'present'],
    ['root without a terminal', { isRoot: true, hasTerminal: false }, 'install'],
    ['root who asks', { isRoot: true, wantsInstall: true }, 'install'],
    ['a user who asks', { wantsInstall: true }, 'sudo'],
    ['a user without a terminal', { hasTerminal: false }, /type: npm start -- --install$/],
    ['root at a terminal', { isRoot: true }, /type: npm start -- --install$/],
    ['in another script', { script: 'demo' }, /type: npm run demo -- --install$/],
    ['a user who asks, without sudo', { wantsInstall: true, hasSudo: false }, /type: apt-get install -y redis-server/],
    ['no apt', { hasApt: false, isRoot: true, hasTerminal: false }, /is missing; type: /],
  ])('%s', (_, change, expected) => {
    const decision = decide({ ...here, ...change });
    if (typeof expected === 'string') expect(decision).toBe(expected);
    else expect(decision).toMatch(expected);
    expect(decision).not.toContain('\n');
  });
});

describe('dependencies', () => {
  const file = (name: string, packages: object) => {
    writeFileSync(join(dir, name), JSON.stringify({ packages }));
    return join(dir, name);
  };
  const wanted = {
    '': { version: '1' },
    'node_modules/a': { version: '1' },
    'node_modules/b': { version: '1', optional: true },
  };

  test.each([
    ['all there', { 'node_modules/a': { version: '1' }, 'node_modules/b': { version: '1' } }, true],
    ['one of another platform missing', { 'node_modules/a': { version: '1' } }, true],
    ['one missing', { 'node_modules/b': { version: '1' } }, false],
    ['one of another version', { 'node_modules/a': { version: '2' } }, false],
  ])('%s', (_, there, expected) => {
    expect(isInstalled(file('lock.json', wanted), file('there.json', there))).toBe(expected);
  });

  test('nothing there', () => {
    expect(isInstalled(file('lock.json', wanted), join(dir, 'absent'))).toBe(false);
  });
});

test('at most ten scripts, and every one that stays alive hands its process over (signals)', () => {
  const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(Object.keys(scripts).length).toBeLessThanOrEqual(10);
  for (const name of ['start', 'test', 'demo', 'bench']) expect(scripts[name]).toMatch(/^exec node bin\/\w+\.js$/);
});

test('a signal during the set-up ends what the set-up runs', async () => {
  const url = new URL('../../bin/run.js', import.meta.url).href;
  const code = `const { run } = await import(${JSON.stringify(url)});
    await run('sh', ['-c', 'echo $$ >&2; exec sleep 60']);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'inherit', 'pipe'] });
  const [line] = (await once(createInterface(child.stderr), 'line')) as [string];
  expect(identityOf(Number(line))).toBeDefined();
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exited).toEqual([143, null]);
  await until(() => identityOf(Number(line)) === undefined);
});
