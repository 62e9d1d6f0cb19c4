import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';
import { cli, json, type Running, start } from './cli.js';

let world: World;
let env: NodeJS.ProcessEnv;
let agent: Wire;
const running: Running[] = [];
beforeAll(async () => {
  world = await startWorld();
  agent = await world.daemon.session({ agent: 'busy-one' });
  env = { SIGNALBOX_URL: world.daemon.url };
});
afterAll(async () => {
  for (const one of running) one.process.kill('SIGKILL');
  await world.stop();
});

const set = (...args: string[]) => cli(['limit', 'set', ...args], { env });

test('set defines a limit from words, ls shows it, penalize stops it', async () => {
  expect((await cli(['limit', 'ls'], { env })).out).toBe('no limits\n');
  const { code, out } = await set('openai', '-d', 'requests=60/1m', '-d', 'concurrency=4');
  expect([code, out]).toEqual([0, 'openai is a window of concurrency, requests\n']);
  const wire = await world.daemon.session();
  await wire.call('limit.reserve', { name: 'openai', cost: { requests: 3, concurrency: 1 } });
  const { limits } = await json(['limit', 'ls', 'open'], { env });
  expect(limits).toMatchObject([
    { name: 'openai', kind: 'window', usage: { requests: { amount: 60, reserved: 3, remaining: 57 } }, waiting: 0 },
  ]);
  const { blockedUntilAt } = await json(['limit', 'penalize', 'openai', '20s', '--code', '429'], { env });
  expect(Date.parse(blockedUntilAt)).toBeGreaterThan(Date.now() + 15_000);
  const table = (await cli(['limit', 'ls'], { env })).out;
  expect(table).toContain('BLOCKED UNTIL');
  expect(table).toContain(blockedUntilAt);
});

test('set takes every kind', async () => {
  expect(
    await json(['limit', 'set', 'b', '--kind', 'bucket', '-d', 'n=10/1s', '--burst', 'n=30'], { env }),
  ).toMatchObject({
    kind: 'bucket',
    dimensions: { n: { amount: 10, perMs: 1000, burst: 30 } },
  });
  const adaptive = ['limit', 'set', 'a', '--kind', 'adaptive', '-d', 'n=10/1s', '--adaptive', 'n:5:20:500ms'];
  expect(await json(adaptive, { env })).toMatchObject({ adaptive: { dimension: 'n', min: 5, max: 20, targetMs: 500 } });
  const budget = ['limit', 'set', 'm', '--kind', 'budget', '-d', 'usdMicros=5000000', '--when-down', '0.5'];
  expect(await json(budget, { env })).toMatchObject({ kind: 'budget', whenDown: { share: 0.5 } });
});

test('a second definition that disagrees is refused until --change says so', async () => {
  await set('c', '-d', 'n=1/1s');
  const { code, err } = await set('c', '-d', 'n=2/1s');
  expect(code).toBe(1);
  expect(err).toContain('change:true');
  expect((await set('c', '-d', 'n=2/1s', '--change')).code).toBe(0);
});

test.each([
  [['x', '-d', 'n'], 'n'],
  [['x', '-d', 'n=many/1s'], 'many'],
  [['x', '-d', 'n=1/soon'], 'soon'],
  [['x', '--kind', 'adaptive', '-d', 'n=1/1s', '--adaptive', 'n:1'], '--adaptive'],
  [['x', '-d', 'n=1/1s', '--when-down', 'maybe'], 'maybe'],
  [['x', '--kind', 'bucket', '-d', 'n=1/1s', '--burst', 'other=2'], 'other'],
  [['x'], '--dimension'],
])('set %j says what is wrong', async (args, word) => {
  const { code, err } = await set(...args);
  expect(code).toBe(2);
  expect(err).toContain(word);
});

test('penalize of a limit nobody has defined fails with the code', async () => {
  const { code, err } = await cli(['limit', 'penalize', 'nobody', '1s'], { env });
  expect(code).toBe(1);
  expect(err).toContain('no such limit');
});

function runs(args: readonly string[], code: string): Running {
  const one = start(['run', ...args, '--', process.execPath, '-e', code], { env });
  running.push(one);
  return one;
}
const atWork = `console.log('at work');process.stdin.on('data',()=>process.exit()).on('end',()=>process.exit())`;
const usage = async (name: string): Promise<Any> => (await agent.call('limit.get', { name })).usage;
const lockOf = (name: string): Promise<Any> => agent.call('lock.get', { name });

test('run --limit: the command runs while a part of the limit is ours, beside the lock, and both are given back', async () => {
  await set('r1', '-d', 'requests=10/1m', '-d', 'concurrency=2');
  const one = runs(['--lock', 'r1', '--limit', 'r1'], atWork);
  await one.until((out) => out.includes('at work'));
  expect(await usage('r1')).toMatchObject({ requests: { reserved: 1 }, concurrency: { reserved: 1 } });
  expect((await lockOf('r1')).holders).toHaveLength(1);
  const { out } = await cli(['who'], { env });
  expect(out).toMatch(/\n[^\n]* reservation +r1 +\d+ [^\n]*(\n[^\n]*)* lock +r1 +\d+ /);
  one.process.stdin!.end();
  expect((await one.ended).code).toBe(0);
  expect(await usage('r1')).toMatchObject({ requests: { used: 1, reserved: 0 }, concurrency: { reserved: 0 } });
  expect((await lockOf('r1')).holders).toEqual([]);
  const costly = await runs(['--limit', 'r1', '--cost', 'requests=4'], 'process.exit(3)').ended;
  expect(costly.code).toBe(3);
  expect(await usage('r1')).toMatchObject({ requests: { used: 5 } });
});

test('run --limit: full and not waiting, or not for longer, is exit code 75; nothing was run, and the lock is free', async () => {
  await set('r2', '-d', 'concurrency=1');
  const { reservation } = await agent.call('limit.reserve', { name: 'r2', cost: { concurrency: 1 } });
  for (const args of [['--no-wait'], ['--wait', '50']]) {
    const { code, out, err } = await runs(['--lock', 'r2', '--limit', 'r2', ...args], `console.log('ran')`).ended;
    expect([code, out]).toEqual([75, '']);
    expect(err).toContain('LIMITED');
  }
  expect((await lockOf('r2')).holders).toEqual([]);
  await agent.call('limit.settle', { reservation });
});

test('run --limit: waits in turn, says for what, and a signal meanwhile ends the waiting', async () => {
  await set('r3', '-d', 'concurrency=1');
  const { reservation } = await agent.call('limit.reserve', { name: 'r3', cost: { concurrency: 1 } });
  const [patient, hasty] = [runs(['--limit', 'r3'], `console.log('ran')`), runs(['--limit', 'r3'], '')];
  await expect.poll(async () => (await agent.call('limit.get', { name: 'r3' })).waiting, { timeout: 10_000 }).toBe(2);
  await hasty.until((_, err) => err.includes('waiting for the limit r3'));
  hasty.process.kill('SIGTERM');
  expect(await hasty.ended).toMatchObject({ code: 143, out: '' });
  await agent.call('limit.settle', { reservation });
  expect(await patient.ended).toMatchObject({ code: 0, out: 'ran\n' });
});

test('run --limit: what is lost is told to the command, whichever of the two it is; the exit code is 1', async () => {
  await set('r4', '-d', 'concurrency=2');
  const heeds = `process.on('SIGTERM',()=>process.exit(0));console.log('at work');setInterval(()=>{},1000)`;
  const one = runs(['--lock', 'r4', '--limit', 'r4'], heeds);
  await one.until((out) => out.includes('at work'));
  const { leases } = await agent.call('lease.list', { kind: 'reservation' });
  const { lease } = leases.find(({ name }: Any) => name === 'r4');
  await agent.call('lease.revoke', { lease, reason: 'an operator' });
  const { code, err } = await one.ended;
  expect(code).toBe(1);
  expect(err).toContain('what was reserved of the limit r4 is lost; the command is told to stop');
  expect(err).toContain('what was reserved of the limit r4 was lost (revoked) while the command ran');

  const two = runs(['--lock', 'r4', '--limit', 'r4'], heeds);
  await two.until((out) => out.includes('at work'));
  await cli(['lock', 'break', 'r4', '--reason', 'an operator'], { env });
  const broken = await two.ended;
  expect(broken.code).toBe(1);
  expect(broken.err).toContain('the lock r4 is lost; the command is told to stop');
  expect(broken.err).toContain('the lock r4 was lost (broken) while the command ran');
  expect(broken.err).not.toContain('reserved of the limit');
});

test('run --limit: what is asked for wrongly is said with its remedy', async () => {
  await set('r5', '-d', 'tokens=100/1s');
  const none = await cli(['run', '--limit', 'r5', '--', 'true'], { env });
  expect(none).toMatchObject({ code: 2, err: expect.stringContaining('--cost tokens=1') });
  const part = await cli(['run', '--lock', 'r5', '--cost', 'tokens=1', '--', 'true'], { env });
  expect(part).toMatchObject({ code: 2, err: expect.stringContaining('--limit <name>') });
  const many = await cli(['run', '--limit', 'r5', '--cost', 'tokens=many', '--', 'true'], { env });
  expect(many).toMatchObject({ code: 2, err: expect.stringContaining('tokens=many') });
  const twice = await cli(['run', '--limit', 'r5', '--limit', 'r6', '--', 'true'], { env });
  expect(twice).toMatchObject({ code: 2, err: expect.stringContaining('given twice, "r5" and "r6"') });
  const unknown = await cli(['run', '--limit', 'nobody', '--', 'true'], { env });
  expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining('NOT_FOUND') });
});

test.each([
  ['run', '--lock', 'x'],
  ['work', 'typo'],
])('%s: a command that is not there is refused before anything is taken for it', async (...args) => {
  const [verb] = args;
  await agent.call('queue.enqueue', { queue: 'typo', tasks: [{ payload: 1, task: `typo-${verb}` }] });
  for (const command of ['nosuchcommand', './nosuchcommand', fileURLToPath(import.meta.url)]) {
    const { code, err } = await cli([...args, '--', command], { env });
    expect([code, err]).toEqual([2, expect.stringContaining(`cannot run ${command}`)]);
  }
  expect(await agent.call('queue.get', { task: `typo-${verb}` })).toMatchObject({ state: 'ready', attempt: 0 });
});
