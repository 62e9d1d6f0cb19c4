import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';

let world: World;
beforeAll(async () => {
  world = await startWorld({ 'ops.logLevel': 'info', 'gateway.token': 'top-secret' });
});
afterAll(() => world.stop());

const lines = (message: string) =>
  world.daemon
    .output()
    .split('\n')
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []))
    .filter(({ msg }) => msg === message);

test('one line a connection: who it was, how it ended, how long it was', async () => {
  const wire = await Wire.session(world.daemon.url, { agent: 'named', token: 'top-secret' });
  await wire.call('queue.enqueue', {
    queue: 'q',
    tasks: [{ payload: 'private-payload', metadata: 'private-metadata' }],
  });
  await wire.close();
  await until(() => lines('connection closed').length === 1);
  expect(lines('connection closed')[0]).toMatchObject({
    address: '127.0.0.1',
    how: 'clean',
    code: 1000,
    agent: 'named',
    session: wire.opened.session,
    forMs: expect.any(Number),
  });
});

test('one line a connection that was refused', async () => {
  await expect(Wire.open(world.daemon.url, { headers: { origin: 'http://evil.example' } })).rejects.toThrow('403');
  await until(() => lines('connection refused').length === 1);
  expect(lines('connection refused')[0]).toMatchObject({ status: 403, address: '127.0.0.1' });
});

test('neither payloads nor tokens are ever in the log', () => {
  expect(world.daemon.output()).not.toMatch(/private-|top-secret/);
});
