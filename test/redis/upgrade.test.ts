import { expect, test } from 'vitest';
import { checkAtRest } from '../queue/at-rest.js';
import { startWorld } from '../support/daemon.js';
import type { Any } from '../support/wire.js';

/** What an older version left: every run as 27 values in the order of format 1. */
const asFormat1 = `
local from = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 23, 24, 25, 26, 16, 27, 18, 19, 20, 21, 22, 11, 12, 13, 14, 15, 10 }
local count = 0
for _, key in ipairs(redis.call('KEYS', 'sb:{default}:run:*')) do
  local run, old = cmsgpack.unpack(redis.call('GET', key)), {}
  for place, at in ipairs(from) do old[place] = run[at] or false end
  redis.call('SET', key, cmsgpack.pack(old))
  count = count + 1
end
redis.call('HSET', 'sb:{default}:meta', 'format', 1)
return count`;

test('a store of format 1 is brought up at the start: every task is what it was, and work goes on under its fence', async () => {
  const world = await startWorld({ 'session.graceMs': 20_000 });
  const client = world.redis.client();
  try {
    const wire = await world.daemon.session({ agent: 'a', ttlMs: 60_000 });
    const task = (name: string, more: Any = {}): Any => ({ task: name, payload: { of: name }, ...more });
    const names = ['held', 'done', 'dead', 'again'];
    await wire.call('queue.enqueue', {
      queue: 'q',
      tasks: [
        ...names.map((name) =>
          task(name, { backoff: { baseMs: 60_000, capMs: 60_000 }, timeoutMs: 600_000, key: name }),
        ),
        task('fresh'),
        task('later', { delayMs: 60_000, deadlineMs: 90_000 }),
      ],
    });
    const { tasks } = await wire.call('queue.claim', { queue: 'q', count: names.length, leaseMs: 60_000 });
    const own = (name: string): Any => {
      const { fence } = tasks.find((each: Any) => each.task === name);
      return { task: name, fence };
    };
    await wire.call('queue.complete', { tasks: [{ ...own('done'), result: { words: 9 } }] });
    const error = { message: 'no' };
    await wire.call('queue.fail', {
      tasks: [
        { ...own('dead'), error, retry: false },
        // The jitter of the back-off may be nothing.
        { ...own('again'), error, afterMs: 60_000 },
      ],
    });
    await wire.call('queue.progress', { ...own('held'), progress: { read: 1 } });
    const look = async (by: Any): Promise<Any[]> =>
      Promise.all([...names, 'fresh', 'later'].map((name) => by.call('queue.get', { task: name })));
    const before = await look(wire);
    await world.daemon.stop();
    expect(await client.eval(asFormat1, 0)).toBe(5);

    const next = await world.another();
    const back = await next.session({ agent: 'a', resume: { session: wire.opened.session, key: wire.opened.key } });
    expect(await client.hget('sb:{default}:meta', 'format')).toBe('2');
    expect(await look(back)).toEqual(before);
    const finished = await back.call('queue.complete', { tasks: [own('held')] });
    expect(finished.tasks).toEqual([{ state: 'completed' }]);
    await back.call('queue.redrive', { queue: 'q' });
    const taken = await back.call('queue.claim', { queue: 'q', count: 5 });
    expect(taken.tasks.map((each: Any) => each.task).sort()).toEqual(['dead', 'fresh']);
    await back.call('queue.complete', {
      tasks: taken.tasks.map(({ task: name, fence }: Any) => ({ task: name, fence })),
    });
    await checkAtRest(world.redis);
  } finally {
    client.disconnect();
    await world.stop();
  }
});
