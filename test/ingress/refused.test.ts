import { afterAll, beforeAll, expect, test } from 'vitest';
import { watch } from '../queue/support.js';
import { startDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';

let redis: TestRedis;
let proxy: FaultProxy;
beforeAll(async () => {
  redis = await startRedis();
  proxy = await startProxy(redis.path);
});
afterAll(async () => {
  await proxy.close();
  await redis.stop();
});

test('a daemon whose Redis user may not use channels serves agents all the same, says so, and hears as soon as it may', async () => {
  const admin = redis.client();
  await admin.call('ACL', 'SETUSER', 'sb', 'reset', 'on', '>p', '~*', '+@all', 'resetchannels');
  const daemon = await startDaemon(`redis://sb:p@127.0.0.1:${proxy.port}`);
  const services = async () =>
    ((await (await fetch(`${daemon.http}/healthz`)).json()) as { services: string }).services;
  expect(await services()).toMatch(/^not heard: NOPERM/);
  expect((await fetch(`${daemon.http}/readyz`)).status).toBe(200);
  const wire = await daemon.session();
  await wire.call('queue.enqueue', { queue: 'q', tasks: [{ payload: 1 }] });
  await wire.call('queue.purge', { queue: 'q' });
  // It tries again several times a second, and says it once.
  await admin.call('ACL', 'LOG', 'RESET');
  const refused = async () => ((await admin.call('ACL', 'LOG')) as unknown[][]).map((row) => Number(row[1]));
  await until(async () => (await refused()).reduce((sum, count) => sum + count, 0) >= 3);
  const told = daemon
    .output()
    .split('\n')
    .filter((line) => line.includes('ACL SETUSER'));
  expect(told).toHaveLength(1);
  expect(told[0]).toContain('&signalbox:* &sb:ingress');
  await admin.call('ACL', 'SETUSER', 'sb', '&signalbox:*', '&sb:ingress');
  await until(async () => (await services()) === 'heard');
  const watcher = await watch(daemon, ['thing.>']);
  await until(async () => {
    await admin.publish('signalbox:default:thing.happened', '1');
    return watcher.events().length > 0;
  });
  expect(await daemon.stop()).toBe(0);
});
