import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';
import { cli, json, type Running, start } from './cli.js';

let world: World;
let env: NodeJS.ProcessEnv;
let agent: Wire;
let watcher: Wire;
const running: Running[] = [];
const dir = mkdtempSync(join(tmpdir(), 'sb-lock-'));
beforeAll(async () => {
  world = await startWorld();
  agent = await world.daemon.session({ agent: 'busy-one' });
  watcher = await world.daemon.wire();
  await watcher.call('feed.subscribe', { types: ['lock.*'] });
  env = { SIGNALBOX_URL: world.daemon.url };
});
afterAll(async () => {
  for (const one of running) one.process.kill('SIGKILL');
  await world.stop();
  rmSync(dir, { recursive: true, force: true });
});

const script = (code: string): string[] => ['--', process.execPath, '-e', code];
const take = (name: string, more: Any = {}): Promise<Any> => agent.call('lock.acquire', { name, ...more });
const show = (name: string): Promise<Any> => agent.call('lock.get', { name });
const told = (type: string, name: string): Promise<Any> =>
  watcher.next((line) => line.op === 'event' && line.event.type === type && line.event.data.lock === name);

/** A command that says it is at work, and ends when `open` is called. */
function untilOpened(name: string): { code: string; open: () => void } {
  const file = join(dir, name);
  const code = `console.log('at work '+process.pid);setInterval(()=>require('fs').existsSync(${JSON.stringify(file)})&&process.exit(),10)`;
  return { code, open: () => writeFileSync(file, '') };
}

function runs(args: readonly string[], code: string): Running {
  const one = start(['run', ...args, ...script(code)], { env });
  running.push(one);
  return one;
}

const pidOf = (one: Running): number => Number(/at work (\d+)/.exec(one.out())![1]);

test('run: the command runs while the lock is held, is told its fence, and its exit code is ours', async () => {
  const { code, out } = await runs(
    ['--lock', 'r1'],
    `const e=process.env;console.log(JSON.stringify([e.SIGNALBOX_LOCK_NAMES,e.SIGNALBOX_LOCK_FENCE,e.SIGNALBOX_URL]));process.exit(3)`,
  ).ended;
  expect(code).toBe(3);
  const granted = await told('lock.granted', 'r1');
  expect(JSON.parse(out)).toEqual(['["r1"]', String(granted.event.data.fence), world.daemon.url]);
  expect((await told('lock.released', 'r1')).event.data.reason).toBe('released');
  const check = await cli(['config', 'check'], { env: { ...env, SIGNALBOX_LOCK_FENCE: '1' } });
  expect(check.code).toBe(0);
});

test('run: several locks are taken in one step; permits and readers by their words', async () => {
  await agent.call('lock.define', { name: 'r2p', capacity: 3 });
  const held = untilOpened('r2');
  const one = runs(['--lock', 'r2a', '--lock', 'r2b', '--shared'], held.code);
  await one.until((out) => out.includes('at work'));
  const [a, b] = [await show('r2a'), await show('r2b')];
  expect(a.holders).toMatchObject([{ mode: 'shared', reason: process.execPath }]);
  expect(b.holders[0].grant).toBe(a.holders[0].grant);
  const two = await runs(['--lock', 'r2p', '--permits', '2', '--reason', 'why not'], '').ended;
  expect(two.code).toBe(0);
  expect((await told('lock.granted', 'r2p')).event.data).toMatchObject({ permits: 2, reason: 'why not' });
  held.open();
  expect((await one.ended).code).toBe(0);
});

test('run: busy and not waiting, or not for longer, is exit code 75 with the holder named, and nothing was run', async () => {
  const { grant } = await take('r3', { reason: 'a long night' });
  for (const args of [['--no-wait'], ['--wait', '50']]) {
    const { code, out, err } = await runs(['--lock', 'r3', ...args], `console.log('ran')`).ended;
    expect([code, out]).toEqual([75, '']);
    expect(err).toContain('HELD');
    expect(err).toContain('busy-one');
    expect(err).toContain('a long night');
  }
  expect((await show('r3')).waiting).toBe(0);
  await agent.call('lock.release', { grant });
});

test('run: waits in turn, says for whom, and a signal meanwhile ends the waiting', async () => {
  const { grant } = await take('r4', { reason: 'a long night' });
  const patient = runs(['--lock', 'r4'], `console.log('at work')`);
  await patient.until((_, err) => err.includes('waiting for r4: busy-one is ahead (a long night)'));
  await told('lock.waiting', 'r4');
  const hasty = runs(['--lock', 'r4'], `console.log('at work')`);
  await hasty.until((_, err) => err.includes('waiting for r4'));
  await watcher.until(() => watcher.events().filter(({ event }) => event.type === 'lock.waiting').length >= 2);
  hasty.process.kill('SIGTERM');
  expect(await hasty.ended).toMatchObject({ code: 143, out: '' });
  expect((await show('r4')).waiting).toBe(1);
  await agent.call('lock.release', { grant });
  expect(await patient.ended).toMatchObject({ code: 0, out: 'at work\n' });
});

test('run: a lost lock: the command gets SIGTERM, and SIGKILL when it does not heed it; the exit code is 1', async () => {
  const heeds = runs(
    ['--lock', 'r5'],
    `process.on('SIGTERM',()=>process.exit(0));console.log('at work');setInterval(()=>{},1000)`,
  );
  await heeds.until((out) => out.includes('at work'));
  const broken = await cli(['lock', 'break', 'r5', '--reason', 'an operator'], { env });
  expect(broken.code).toBe(0);
  expect(broken.out).toMatch(/^taken from cli@\S+\n$/);
  const ended = await heeds.ended;
  // That the command itself ended well does not make it well.
  expect(ended.code).toBe(1);
  expect(ended.err).toContain('the lock r5 is lost; the command is told to stop');
  expect(ended.err).toContain('the lock r5 was lost (broken) while the command ran');

  const stubborn = runs(
    ['--lock', 'r6', '--kill-after', '100'],
    `process.on('SIGTERM',()=>console.error('heard'));console.log('at work '+process.pid);setInterval(()=>{},1000)`,
  );
  await stubborn.until((out) => out.includes('at work'));
  await cli(['lock', 'break', 'r6', '--reason', 'an operator'], { env });
  expect(await stubborn.ended).toMatchObject({ code: 1, err: expect.stringContaining('heard') });
  expect(() => process.kill(pidOf(stubborn), 0)).toThrow('ESRCH');
});

test('run: a hold that is too long, and a daemon that is gone for too long, are losses', async () => {
  const long = await runs(['--lock', 'r7', '--max-hold', '300'], 'setInterval(()=>{},1000)').ended;
  expect(long).toMatchObject({ code: 1, err: expect.stringContaining('(maxHold)') });
  const other = await world.another({ 'session.ttlMs': 1000 });
  const orphan = start(['run', '--lock', 'r8', '--url', other.url, ...script(untilOpened('never').code)], { env });
  running.push(orphan);
  await orphan.until((out) => out.includes('at work'));
  await other.kill();
  const { code, err } = await orphan.ended;
  expect(code).toBe(1);
  expect(err).toContain('connection lost');
  expect(err).toContain('(cannotRenew)');
  expect(() => process.kill(pidOf(orphan), 0)).toThrow('ESRCH');
});

test('run: SIGTERM is for the command, and how it ends is how we end', async () => {
  const one = runs(
    ['--lock', 'r9'],
    `process.on('SIGTERM',()=>{console.log('tidied');process.exit(7)});console.log('at work');setInterval(()=>{},1000)`,
  );
  await one.until((out) => out.includes('at work'));
  one.process.kill('SIGTERM');
  expect(await one.ended).toMatchObject({ code: 7, out: 'at work\ntidied\n' });
  const two = runs(['--lock', 'r9'], `console.log('at work');setInterval(()=>{},1000)`);
  await two.until((out) => out.includes('at work'));
  two.process.kill('SIGTERM');
  expect((await two.ended).code).toBe(143);
  expect((await show('r9')).inUse).toBe(0);
});

test('run: kill -9 takes the command along: nothing goes on under a lock that nobody renews', async () => {
  const one = runs(['--lock', 'r10'], untilOpened('never').code);
  await one.until((out) => out.includes('at work'));
  one.process.kill('SIGKILL');
  // Its output closes only when the last process that has it is gone.
  expect((await one.ended).code).toBeNull();
});

test('lock acquire goes on holding when it has ended; release gives back by the word it printed', async () => {
  const { word, fence } = await json(['lock', 'acquire', 'k1', 'k1 too', '--for', '1m', '--reason', 'by hand'], {
    env,
  });
  expect((await show('k1')).holders).toMatchObject([{ fence, reason: 'by hand' }]);
  expect((await show('k1 too')).inUse).toBe(1);
  const busy = await cli(['lock', 'acquire', 'k1', '--no-wait'], { env });
  expect(busy.code).toBe(75);
  expect(busy.err).toContain('by hand');
  expect(await cli(['lock', 'check', 'k1', String(fence)], { env })).toMatchObject({ code: 0, out: 'valid\n' });
  expect(await cli(['lock', 'release', word], { env })).toMatchObject({ code: 0, out: 'released\n' });
  const after = await cli(['lock', 'check', 'k1', String(fence)], { env });
  expect(after).toMatchObject({ code: 1, out: `not valid; the last fence given is ${fence}\n` });
  const again = await cli(['lock', 'release', word], { env });
  expect(again.code).toBe(1);
  expect(again.err).toContain('not held under this word any more');
});

test('lock acquire comes free by itself, and waits for its turn as anybody', async () => {
  const { grant } = await take('k2');
  const waiting = cli(['lock', 'acquire', 'k2', '--for', '1s'], { env });
  await told('lock.waiting', 'k2');
  await agent.call('lock.release', { grant });
  const { code, out } = await waiting;
  expect(code).toBe(0);
  const lost = await told('lock.lost', 'k2');
  expect(lost.event.data.reason).toBe('sessionLost');
  const late = await cli(['lock', 'release', out.trim()], { env });
  expect(late.code).toBe(1);
  expect((await cli(['lock', 'acquire', 'k2', '--for', '1h'], { env })).code).toBe(2);
});

test('lock ls: definition, holders and waiters; break: from whom', async () => {
  expect((await cli(['lock', 'ls', 'nothing begins so'], { env })).out).toBe('no locks\n');
  await agent.call('lock.define', { name: 'ls.semaphore', capacity: 5 });
  const { grant } = await take('ls.semaphore', { permits: 2, reason: 'two of five' });
  await take('ls.mutex');
  const other = await world.daemon.session({ agent: 'other' });
  await other.call('lock.acquire', { name: 'ls.mutex', waitMs: 60_000 });
  const { out } = await cli(['lock', 'ls.'], { env });
  expect(out).toMatch(/^LOCK +IN USE +CAPACITY +WAITING +HELD BY +FOR +REASON\n/);
  expect(out).toMatch(/\nls\.mutex +1 +- +1 +busy-one +/);
  expect(out).toMatch(/\nls\.semaphore +2 +5 +0 +busy-one +\d+ \w+ +two of five\n/);
  const { locks } = await json(['lock', 'ls', 'ls.'], { env });
  expect(locks.map(({ name }: Any) => name)).toEqual(['ls.mutex', 'ls.semaphore']);
  expect((await cli(['lock', 'break', 'ls.mutex'], { env })).code).toBe(2);
  const broken = await json(['lock', 'break', 'ls.mutex', '--reason', 'stuck'], { env });
  expect(broken).toMatchObject({
    broken: [{ holder: { agent: 'busy-one' } }],
    holders: [{ holder: { agent: 'other' } }],
  });
  expect((await cli(['lock', 'break', 'ls.none', '--reason', 'x'], { env })).out).toBe('nobody held ls.none\n');
  await agent.call('lock.release', { grant });
  await other.close();
});

test('who: live sessions and what they hold (tasks, reservations, locks, once keys) and wait for', async () => {
  const holder = await world.daemon.session({ agent: 'who-holds' });
  const waiter = await world.daemon.session({ agent: 'who-waits' });
  const idle = await world.daemon.session({ agent: 'who-idles' });
  const { fence } = await holder.call('lock.acquire', { locks: [{ name: 'w1' }, { name: 'w2' }] });
  await waiter.call('lock.acquire', { name: 'w1', waitMs: 60_000 });
  await holder.call('queue.enqueue', { queue: 'who', tasks: [{ task: 'who-task', payload: 1 }] });
  await holder.call('queue.claim', { queue: 'who' });
  await holder.call('limit.define', { name: 'who-limit', kind: 'window', dimensions: { concurrency: { amount: 1 } } });
  await holder.call('limit.reserve', { name: 'who-limit', cost: { concurrency: 1 } });
  await waiter.call('limit.reserve', { name: 'who-limit', cost: { concurrency: 1 }, waitMs: 60_000 });
  await holder.call('once.begin', { key: 'who-key', fingerprint: 'f' });
  const { out } = await cli(['who'], { env });
  expect(out).toMatch(/^AGENT +SESSION +HOLDS +NAME +FENCE +FOR +ENDS IN\n/);
  expect(out).toMatch(
    new RegExp(
      `\nwho-holds +${holder.opened.session} +task +who-task +\\d+ .*\n +reservation +who-limit +\\d+ .*\n +lock +w1, w2 +${fence} .*\n +once +who-key +\\d+ `,
    ),
  );
  expect(out).toMatch(
    new RegExp(`\nwho-waits +${waiter.opened.session} +waits: lock +w1 +- .*\n +waits: reservation +who-limit +- `),
  );
  expect(out).toMatch(new RegExp(`\nwho-idles +${idle.opened.session} +nothing +`));
  const { sessions } = await json(['who', '--agent', 'who-holds'], { env });
  expect(sessions).toMatchObject([
    {
      session: holder.opened.session,
      agent: 'who-holds',
      endsAt: expect.any(String),
      holds: [
        { kind: 'task', name: 'who-task' },
        { kind: 'reservation', name: 'who-limit' },
        { kind: 'lock', locks: ['w1', 'w2'], fence },
        { kind: 'once', name: 'who-key' },
      ],
    },
  ]);
  expect((await cli(['who', '--agent', 'nobody'], { env })).out).toBe('no sessions\n');
});

test('what is asked for wrongly is said with its remedy, exit code 2', async () => {
  const none = await cli(['run', '--', 'true'], { env });
  expect(none).toMatchObject({ code: 2, err: expect.stringContaining('name a lock: --lock <name>') });
  const both = await cli(['run', '--lock', 'x', '--shared', '--permits', '2', '--', 'true'], { env });
  expect(both).toMatchObject({ code: 2, err: expect.stringContaining('a lock is one of them') });
  const word = await cli(['lock', 'release', 'x'], { env });
  expect(word).toMatchObject({ code: 2, err: expect.stringContaining('lock break') });
  expect((await cli(['lock', 'check', 'x', 'soon'], { env })).code).toBe(2);
});
