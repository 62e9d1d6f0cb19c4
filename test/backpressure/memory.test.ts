import { afterAll, beforeAll, expect, test } from 'vitest';
import { claim, complete, freshQueue } from '../queue/support.js';
import { startWorld, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';

const megabytes = 24;
let world: World;
beforeAll(async () => {
  world = await startWorld({ 'queue.completedAgeMs': 200 }, ['--maxmemory', `${megabytes}mb`]);
});
afterAll(() => world.stop());

const payload = 'x'.repeat(4000);
const send = async (wire: Wire, queue: string, count: number): Promise<Any> =>
  wire.call('queue.enqueue', { queue, tasks: Array(count).fill({ payload }) });

/** Until nothing more is admitted; answers the first refusal and how many tasks went in. */
async function fill(wire: Wire, queue: string): Promise<{ error: Any; count: number }> {
  for (let count = 0; ; ) {
    const { tasks, pressure } = await send(wire, queue, 50);
    const refused = tasks.find(({ error }: Any) => error);
    count += tasks.filter(({ error }: Any) => !error).length;
    if (!refused) continue;
    expect(pressure.level).toBe(3);
    return { error: refused.error, count };
  }
}

test('Q29 A25: near the memory limit the log goes first, with a gap, then admission stops; work goes on and it opens by itself', async () => {
  const { daemon, redis } = world;
  const [wire, worker, reader] = [await daemon.session(), await daemon.session({ ttlMs: 5000 }), await daemon.wire()];
  const queue = freshQueue();
  const client = redis.client();
  const memory = async (name: string): Promise<number> =>
    Number(new RegExp(`\\b${name}:(\\d+)`).exec(await client.info('memory'))?.[1]);
  const once = await wire.call('once.begin', { key: queue, fingerprint: 'f' });

  // A log of some megabytes, from its first event on.
  const { events } = await wire.call('feed.publish', { events: [{ type: 'app.first' }] });
  const data = 'y'.repeat(20_000);
  for (let i = 0; i < 30; i++) {
    await wire.call('feed.publish', { events: Array(10).fill({ type: 'app.filler', data }) });
  }
  const { error, count } = await fill(wire, queue);
  expect(error).toMatchObject({
    code: 'OVERLOADED',
    retry: true,
    afterMs: expect.any(Number),
    details: { scope: 'memory' },
  });
  expect(count).toBeGreaterThan(500);

  // The log went first, and who reads from before is told so.
  await until(async () => {
    await fill(wire, queue);
    const tail = Number(await client.hget('sb:{default}:meta', 'tail'));
    return tail >= 300;
  });
  expect(await reader.refused('feed.read', { from: events[0].position })).toMatchObject({
    code: 'POSITION_LOST',
    details: { reason: 'trimmed' },
  });
  expect(await memory('used_memory')).toBeLessThan(megabytes * 1024 * 1024);

  // Nothing more goes in; what ends or keeps an ownership passes.
  expect((await fill(wire, queue)).error.code).toBe('OVERLOADED');
  expect((await wire.call('once.finish', { key: queue, fence: once.fence, result: payload })).state).toBe('done');
  await worker.call('ping');
  const [one, two, three] = await claim(worker, queue, { count: 3, leaseMs: 30_000 });
  const { leases } = await worker.call('lease.renew', { leases: [{ lease: `task:${one.task}`, fence: one.fence }] });
  expect(leases[0].endsAt).toBeDefined();
  await worker.call('queue.progress', { task: one.task, fence: one.fence, progress: 1 });
  expect((await complete(worker, { ...one, result: payload }))[0].state).toBe('completed');
  const error2 = { message: 'no' };
  await worker.call('queue.fail', { tasks: [{ task: two.task, fence: two.fence, error: error2, retry: false }] });
  await worker.call('queue.release', { tasks: [{ task: three.task, fence: three.fence, reason: 'r' }] });

  // Workers get it empty, and it opens without anybody's help.
  for (;;) {
    const tasks = await claim(worker, queue, { count: 100 });
    if (tasks.length === 0) break;
    await complete(worker, ...tasks);
  }
  await until(async () => {
    const { tasks } = await send(wire, queue, 1);
    return tasks[0].state === 'ready';
  });
  await wire.call('queue.purge', { queue });
  await wire.call('queue.purge', { queue, state: 'dead' });
});
