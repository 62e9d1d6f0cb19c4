import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

/**
 * Every command in a `sh` block of the README is run: here, or by what `elsewhere` names. So is
 * every program. Commands inside sentences are not looked at; `npm run demo` has test/demo.test.ts.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const blocks = (kind: string): string[] =>
  [...readme.matchAll(new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map((found) => found[1]!);
const commands = blocks('sh').flatMap((block) => block.trim().split('\n'));

/** The two commands of the set-up are run by .ci/run in a clean clone. */
const elsewhere = ['npm start', 'npm test'];

const dir = mkdtempSync(join(tmpdir(), 'sb-readme-'));
const children = new Set<ChildProcess>();
let env: NodeJS.ProcessEnv;

function start(
  command: string,
  args: readonly string[],
  cwd = dir,
): { child: ChildProcess; text: () => string; until: (found: RegExp) => Promise<RegExpExecArray> } {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  let text = '';
  const watchers = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (data) => {
      text += data;
      for (const look of watchers) look();
    });
  }
  let closed = false;
  child.once('exit', () => children.delete(child));
  // Its last lines may come after the exit.
  child.once('close', () => {
    closed = true;
    for (const look of watchers) look();
  });
  const until = (wanted: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = wanted.exec(text);
        if (found) {
          watchers.delete(look);
          resolve(found);
        } else if (closed) reject(new Error(`${command} ${args.join(' ')} ended with ${child.exitCode}:\n${text}`));
      };
      watchers.add(look);
      look();
    });
  return { child, text: () => text, until };
}

async function sh(command: string): Promise<string> {
  const { child, text } = start('/bin/sh', ['-c', command]);
  const [code] = await once(child, 'close');
  expect(code, `${command}\n${text()}`).toBe(0);
  return text();
}

beforeAll(async () => {
  mkdirSync(join(dir, 'bin'));
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(root, join(dir, 'node_modules', 'signalbox'));
  const shim = join(dir, 'bin', 'signalbox');
  writeFileSync(shim, `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'bin/signalbox.js')}' "$@"\n`);
  chmodSync(shim, 0o755);
  env = { PATH: `${join(dir, 'bin')}:${process.env.PATH}`, HOME: dir, SIGNALBOX_STATE_DIR: join(dir, 'state') };
  const up = start('signalbox', ['up', '--ephemeral', '--port', '0']);
  const [url] = await up.until(/ws:\/\/\S+\/v1\/ws/);
  // As people write it: without the path.
  env.SIGNALBOX_URL = url.replace('/v1/ws', '');
});

afterAll(async () => {
  await Promise.all(
    [...children].map(async (child) => {
      const exit = once(child, 'exit');
      child.kill('SIGTERM');
      await exit;
    }),
  );
  rmSync(dir, { recursive: true, force: true });
});

const taken = new Set<string>();
/** The one command of the README that begins so. */
function command(beginning: string): string {
  const found = commands.filter((line) => line.startsWith(beginning));
  expect(found, `commands of the README that begin with "${beginning}"`).toHaveLength(1);
  taken.add(found[0]!);
  return found[0]!;
}

test('a PUBLISH by hand arrives in the terminal that watches the feed', async () => {
  const tail = start('/bin/sh', ['-c', `exec ${command('signalbox tail')}`]);
  // Whoever subscribes late hears nothing of it: publish until it is heard, as a person would press the key again.
  const publish = command('signalbox redis-cli');
  let heard = false;
  const arrived = tail.until(/deploy\.finished/).then(() => {
    heard = true;
  });
  while (!heard) await Promise.race([sh(publish), arrived]);
  expect(tail.text()).toContain('1.2');
  tail.child.kill('SIGTERM');
});

test('a task is enqueued, worked on by a program, and found completed', async () => {
  await sh(command('signalbox enqueue'));
  await sh(command('signalbox work'));
  expect(await sh(command('signalbox tasks'))).toContain('completed');
  expect(await sh(command('signalbox status'))).toContain('docs');
});

test('a program runs under a lock, and it is seen who holds what', async () => {
  const [line, ls, who] = [command('signalbox run --lock'), command('signalbox lock'), command('signalbox who')];
  let [shown, holds] = ['', ''];
  const seen = (): boolean => shown.includes('release 1.2') && holds.includes('deploy');
  // On a busy machine its seconds may be over before both have looked: it is run again then, as a person would.
  while (!seen()) {
    const run = start('/bin/sh', ['-c', line]);
    const ended = once(run.child, 'close');
    while (!seen() && run.child.exitCode === null) [shown, holds] = await Promise.all([sh(ls), sh(who)]);
    expect((await ended)[0], run.text()).toBe(0);
  }
  expect(shown).toMatch(/deploy +1 +- +0 +cli@/);
  expect(holds).toMatch(/^AGENT +SESSION[^\n]*\ncli@[^\n]* lock +deploy /);
});

test('a limit is defined, a program runs under it, and it is seen what is used', async () => {
  await sh(command('signalbox limit set'));
  await sh(command('signalbox run --limit'));
  expect(await sh(command('signalbox limit ls'))).toMatch(/ requests +60 +60 s +1 +0 +59 /);
});

/** A program of the README as it stands there; it finds the daemon by the environment. */
async function program(number: number): Promise<string> {
  const file = join(dir, `program-${number}.mjs`);
  writeFileSync(file, blocks('ts')[number]!);
  const { child, text } = start(process.execPath, [file]);
  const [code] = await once(child, 'close');
  expect(code, text()).toBe(0);
  return text();
}

test('the worker of the README runs as it stands there', async () => {
  expect(await program(0)).toContain('words: 9');
});

test('what the README shows of locks, limits and once runs as it stands there', async () => {
  expect(await program(1)).toMatch(/fence: \d+, lost: false .* paid/);
});

test('no command of the README is left out', () => {
  expect(commands.filter((line) => !taken.has(line) && !elsewhere.includes(line))).toEqual([]);
});
