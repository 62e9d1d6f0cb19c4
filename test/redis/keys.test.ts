import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyPage } from '../../src/redis/keys.js';
import { checkDump, checkPage, Dump } from '../queue/at-rest.js';
import { startWorld, type World } from '../support/daemon.js';
import type { Any } from '../support/wire.js';

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

test('the page of keys names each key once, with what it holds, when it ends and who writes it', () => {
  expect(new Set(keyPage.map(({ key }) => key)).size).toBe(keyPage.length);
  for (const row of keyPage)
    for (const text of [row.holds, row.ends, row.writer]) expect(text.length, row.key).toBeGreaterThan(3);
});

test('every key of a live database in full use stands on the page with its type, and the spine uses its whole page', async () => {
  const { daemon, redis } = world;
  const wire = await daemon.session({ tenant: 't', labels: { a: 'b' } });
  const enqueue = (tasks: Any[]): Promise<Any> => wire.call('queue.enqueue', { queue: 'q:1', tasks });
  const plain = Array.from({ length: 8 }, (_, i) => ({
    payload: i,
    task: `a:${i}`,
    key: `k:${i}`,
    kind: `kind:${i % 2}`,
    backoff: { baseMs: 60_000, capMs: 60_000 },
  }));
  await enqueue([...plain, { payload: 1, delayMs: 60_000, startByMs: 90_000, deadlineMs: 90_000 }]);
  const { tasks } = await wire.call('queue.claim', { queue: 'q:1', count: 6, leaseMs: 60_000 });
  const owned = tasks.map(({ task, fence }: Any) => ({ task, fence }));
  await wire.call('queue.complete', { tasks: owned.slice(0, 1) });
  await wire.call('queue.fail', {
    tasks: [
      { ...owned[1], error: { message: 'm' }, retry: false },
      { ...owned[2], error: { message: 'm' } },
    ],
  });
  await wire.call('queue.cancel', { task: 'a:7' });
  await enqueue([
    { payload: 1, task: 'unkeyed', priority: 99 },
    { payload: 1, task: 'expires', startByMs: 1, priority: 0 },
  ]);
  const [unkeyed] = (await wire.call('queue.claim', { queue: 'q:1' })).tasks;
  await wire.call('queue.complete', { tasks: [{ task: unkeyed.task, fence: unkeyed.fence }] });
  const watcher = await daemon.wire();
  await watcher.call('feed.subscribe', { types: ['task.expired'], from: 'all' });
  await watcher.event('task.expired', 'expires');
  await wire.call('feed.publish', { events: [{ type: 'app.event', id: 'once', data: 1 }] });
  const broken = await daemon.session({ ttlMs: 60_000 });
  await broken.call('queue.claim', { queue: 'q:1' });
  broken.cut();
  const named = (row: { key: string }): RegExp =>
    new RegExp(`^${row.key.replace(/<#[^>]+>/g, '\\d+').replace(/<[^>]+>/g, '[^]*')}$`);
  // Keys that come and go by themselves: seen once is enough.
  const seen = new Map<string, string>();
  await expect
    .poll(
      async () => {
        const dump = await Dump.of(redis);
        checkPage(dump);
        for (const [name, { type }] of dump.keys) seen.set(name, type);
        const spine = keyPage.filter((row) => row.since === undefined && !['ingress', 'ending'].includes(row.key));
        return spine
          .filter((row) => ![...seen].some(([name, type]) => named(row).test(name) && type === row.type))
          .map(({ key }) => key);
      },
      { timeout: 10_000 },
    )
    .toEqual([]);
  expect(await redis.client().keys('*')).toEqual(expect.arrayContaining(['sb:namespaces', 'sb:{default}:meta']));
  for (const key of await redis.client().keys('*'))
    expect(key === 'sb:namespaces' || key.startsWith('sb:{default}:')).toBe(true);
  await expect.poll(async () => checkDump(await Dump.of(redis)) ?? 'holds').toBe('holds');
});
