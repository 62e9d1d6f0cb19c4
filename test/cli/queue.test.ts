import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';
import { cli, json, type Running, start } from './cli.js';

let world: World;
let env: NodeJS.ProcessEnv;
/** Puts tasks in and looks at them: a process for each would only take time. */
let agent: Wire;
const running: Running[] = [];
beforeAll(async () => {
  world = await startWorld();
  agent = await world.daemon.session();
  env = { SIGNALBOX_URL: world.daemon.url };
});
afterAll(async () => {
  for (const one of running) one.process.kill('SIGKILL');
  await world.stop();
});

const put = (queue: string, task: string, more: Any = {}) =>
  agent.call('queue.enqueue', { queue, tasks: [{ task, payload: null, ...more }] });
const get = (task: string): Promise<Any> => agent.call('queue.get', { task });

const script = (code: string): string[] => ['--', process.execPath, '-e', code];

async function work(queue: string, args: readonly string[], code: string): Promise<Running> {
  const worker = start(['work', queue, ...args, ...script(code)], { env });
  running.push(worker);
  await worker.until((_, err) => err.includes(`working on ${queue}`));
  return worker;
}

test('the pair of the banner: payload on stdin, result from stdout, JSON if it is', async () => {
  await work(
    'pair',
    [],
    `let t='';process.stdin.on('data',d=>t+=d).on('end',()=>console.log(JSON.stringify({got:JSON.parse(t).n+1})))`,
  );
  const { code, out } = await cli(['enqueue', 'pair', '{"n":41}', '--wait'], { env });
  expect([code, out]).toEqual([0, '{"got":42}\n']);
  const words = start(['work', 'words', '--', 'wc', '-w'], { env });
  running.push(words);
  expect((await cli(['enqueue', 'words', '"three little words"', '--wait'], { env })).out).toBe('3\n');
});

test('a result that is no JSON is a text; the payload - comes from standard input', async () => {
  await work('text', [], `console.log('plain ' + process.env.SIGNALBOX_TASK_ATTEMPT)`);
  const { out } = await start(['enqueue', 'text', '-', '--wait'], { env, input: '{"from":"stdin"}' }).ended;
  expect(out).toBe('"plain 1"\n');
});

test('the command is told task, attempt and fence; of settings it hears nothing wrong', async () => {
  await work(
    'env',
    [],
    `const e=process.env;console.log(JSON.stringify([e.SIGNALBOX_TASK_ID,e.SIGNALBOX_TASK_ATTEMPT,e.SIGNALBOX_TASK_FENCE,e.SIGNALBOX_TASK_QUEUE,e.SIGNALBOX_URL]))`,
  );
  const { result, task } = await json(['enqueue', 'env', '1', '--id', 'named', '--wait'], { env });
  const shown = await json(['tasks', 'get', 'named'], { env });
  expect(task).toBe('named');
  expect(result).toEqual(['named', '1', String(shown.history[0].fence), 'env', world.daemon.url]);
  const check = await cli(['config', 'check'], {
    env: { ...env, SIGNALBOX_TASK_ID: 'named', SIGNALBOX_TASK_FENCE: '1' },
  });
  expect(check.code).toBe(0);
});

test('another exit code fails the task with its last word, and the last attempt makes it dead', async () => {
  await work('fails', [], `console.error('first');console.error('no such thing');process.exit(3)`);
  const { code, err } = await cli(['enqueue', 'fails', '--attempts', '1', '--id', 'doomed', '--wait'], { env });
  expect(code).toBe(1);
  expect(err).toContain('the task is dead: exit code 3: no such thing');
  expect(await get('doomed')).toMatchObject({
    state: 'dead',
    error: { message: 'exit code 3: no such thing', code: 'EXIT_3' },
  });
});

test('exit code 75 hands the task back: the attempt is refunded', async () => {
  await work('later', ['--rest', '50'], `require('fs').appendFileSync('/dev/null','');process.exit(75)`);
  const { code } = await cli(['enqueue', 'later', '--attempts', '1', '--id', 'patient', '--wait', '500'], { env });
  expect(code).toBe(75);
  const { attempt, refunds } = await get('patient');
  expect(refunds).toBeGreaterThan(0);
  expect(attempt).toBeLessThanOrEqual(1);
});

test('a cancelled task: its command gets SIGTERM, and SIGKILL when it does not heed it', async () => {
  const worker = await work(
    'stubborn',
    ['--kill-after', '200'],
    `process.on('SIGTERM',()=>console.error('heard'));console.error('at work');setInterval(()=>{},1000)`,
  );
  await put('stubborn', 'stuck');
  await worker.until((_, err) => err.includes('at work'));
  const cancelled = await cli(['tasks', 'cancel', 'stuck', '--reason', 'no longer wanted'], { env });
  expect([cancelled.code, cancelled.out]).toEqual([0, 'stuck runs; its worker was told to stop\n']);
  await worker.until((_, err) => err.includes('stuck failed') && err.includes('ended by SIGKILL'));
  expect(worker.err()).toContain('heard');
  expect(await agent.call('queue.result', { task: 'stuck', waitMs: 5000 })).toMatchObject({
    state: 'cancelled',
  });
});

test('SIGTERM to the worker lets what runs finish, and leaves the rest in the queue', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sb-work-'));
  const file = join(dir, 'go on');
  const code = `console.error('began');setInterval(()=>require('fs').existsSync(${JSON.stringify(file)})&&(console.log('"done"'),process.exit()),20)`;
  const worker = await work('graceful', [], code);
  for (const id of ['one', 'two']) await put('graceful', id);
  await worker.until((_, err) => err.includes('began'));
  worker.process.kill('SIGTERM');
  worker.process.kill('SIGTERM');
  writeFileSync(file, '');
  expect((await worker.ended).code).toBe(0);
  expect(await get('one')).toMatchObject({ state: 'completed', result: 'done' });
  expect(await get('two')).toMatchObject({ state: 'ready', attempt: 0 });
  rmSync(dir, { recursive: true, force: true });
});

test('what is not done within --stop is killed, and its task handed back', async () => {
  const worker = await work(
    'slow',
    ['--stop', '200', '--kill-after', '100'],
    `console.error('began '+process.pid);setInterval(()=>{},1000)`,
  );
  await put('slow', 'unfinished');
  await worker.until((_, err) => /began \d+/.test(err));
  const pid = Number(/began (\d+)/.exec(worker.err())![1]);
  worker.process.kill('SIGINT');
  expect((await worker.ended).code).toBe(0);
  expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  expect(await get('unfinished')).toMatchObject({ state: 'ready' });
});

test('--count ends the worker after so many tasks, --json tells of each on one line', async () => {
  for (const id of ['c1', 'c2', 'c3']) await put('counted', id);
  const { code, out } = await cli(['work', 'counted', '--count', '2', '--json', ...script('')], { env });
  expect(code).toBe(0);
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.map(({ task, outcome }) => [task, outcome])).toEqual([
    ['c1', 'completed'],
    ['c2', 'completed'],
  ]);
});

test('tasks: a page of a state; dead: list, bring back, remove', async () => {
  await put('listed', 'l1', { priority: 75, kind: 'pdf' });
  const table = await cli(['tasks', 'listed'], { env });
  expect(table.out).toMatch(/^TASK +STATE +KIND .*\nl1 +ready +pdf +default +75 +0\/3 /);
  expect((await cli(['tasks', 'listed', '--state', 'active'], { env })).out).toBe('no tasks in listed are active\n');
  await put('letter', 'd1', { maxAttempts: 1 });
  await put('letter', 'd2', { maxAttempts: 1 });
  await cli(['work', 'letter', '--count', '2', ...script('process.exit(1)')], { env });
  expect((await json(['dead', 'ls', 'letter'], { env })).tasks).toHaveLength(2);
  expect((await cli(['dead', 'redrive', 'letter', '--task', 'd1'], { env })).out).toBe('1 task brought back\n');
  expect(await get('d1')).toMatchObject({ state: 'ready', attempt: 0 });
  const wrong = await cli(['dead', 'purge', 'letter', '--task', 'd1', '--task', 'nobody'], { env });
  expect(wrong.code).toBe(1);
  expect(wrong.err).toContain('d1: CONFLICT: it is ready, not in the dead letter');
  expect(wrong.err).toContain('nobody: NOT_FOUND');
  expect(await json(['dead', 'purge', 'letter'], { env })).toEqual({ count: 1 });
  expect((await cli(['dead', 'ls', 'letter'], { env })).out).toBe('the dead letter of letter is empty\n');
});

test('the same id is the same task; another payload under it is a conflict, and says so', async () => {
  await put('same', 'same1', { payload: 1 });
  expect(await json(['enqueue', 'same', '1', '--id', 'same1'], { env })).toMatchObject({ deduplicated: true });
  const { code, err } = await cli(['enqueue', 'same', '2', '--id', 'same1', '--json'], { env });
  expect(code).toBe(1);
  expect(JSON.parse(err).error).toMatchObject({ code: 'CONFLICT', retry: false });
});

test('a full queue is busy: exit code 75', async () => {
  await agent.call('queue.configure', { queue: 'full', maxDepth: 1 });
  await put('full', 'only');
  const { code, err } = await cli(['enqueue', 'full'], { env });
  expect(code).toBe(75);
  expect(err).toContain('OVERLOADED');
});
