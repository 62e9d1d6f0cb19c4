import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import { cli, json } from './cli.js';

let world: World;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  world = await startWorld();
  env = { SIGNALBOX_URL: world.daemon.url };
});
afterAll(() => world.stop());

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
  expect(table).toContain('blocked until');
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
