import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';

let world: World;
beforeAll(async () => {
  world = await startWorld({ 'session.graceMs': 2000 });
});
afterAll(() => world.stop());

test('a connection that we close takes no more tasks: its worker does not burn them while the socket lingers', async () => {
  const { daemon } = world;
  const producer = await daemon.session({ agent: 'producer' });
  const misuser = await daemon.session({ agent: 'misuser' });
  await misuser.call('queue.work', { queue: 'leaving', credit: 100 });
  // Does not read, so that the close frame is not answered; three bad frames, and we close it.
  misuser.socket.pause();
  for (let i = 0; i < 3; i++) misuser.send('not json');
  const tasks = Array.from({ length: 200 }, (_, i) => ({ task: `leaving-${i}`, payload: i }));
  for (let i = 0; i < 200; i += 10)
    await producer.call('queue.enqueue', { queue: 'leaving', tasks: tasks.slice(i, i + 10) });
  const seen = await Promise.all(tasks.map(({ task }) => producer.call('queue.get', { task })));
  expect(Math.max(...seen.map(({ refunds }) => refunds))).toBeLessThanOrEqual(1);
  expect(seen.filter(({ state }) => state === 'dead')).toEqual([]);
  misuser.cut();
});

test('a subscription whose socket goes before its place is found leaves no cursor behind', async () => {
  const { daemon } = world;
  for (let i = 0; i < 50; i++) {
    const watcher = await daemon.wire();
    watcher.send(JSON.stringify({ id: 1, op: 'feed.subscribe', params: { types: ['>'] } }));
    watcher.cut();
  }
  const tails = async (): Promise<number> => {
    const text = await (await fetch(`${daemon.http}/metrics`)).text();
    return Number(/^signalbox_feed_tails(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? Number.NaN);
  };
  await expect.poll(tails, { timeout: 5000 }).toBe(0);
});
