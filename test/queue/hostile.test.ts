import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

test.each(['ready|nan x', 'ready|-nan x', 'ready|inf x', 'ready|0x10 x', 'ready|1e999 x'])(
  'the cursor %j is a BAD_REQUEST',
  async (cursor) => {
    const wire = await world.daemon.session();
    expect((await wire.refused('queue.list', { queue: 'q', state: 'ready', cursor })).code).toBe('BAD_REQUEST');
    expect((await wire.refused('queue.purge', { queue: 'q', cursor })).code).toBe('BAD_REQUEST');
    await wire.close();
  },
);

test.each([
  ['session.open', { agent: 'a' }, 'labels'],
  ['feed.subscribe', { types: ['task.>'] }, 'where'],
])('%s refuses __proto__ as a key of an open record and names it', async (op, params, field) => {
  const wire = await world.daemon.wire();
  wire.send(`{"id":1,"op":"${op}","params":${JSON.stringify(params).slice(0, -1)},"${field}":{"__proto__":"x"}}}`);
  const reply = await wire.next((line) => line.id === 1);
  expect(reply.error).toMatchObject({ code: 'BAD_REQUEST', path: `${field}.__proto__` });
  await wire.close();
});

test('an instant that its offset pushes past the year 9999 is refused', async () => {
  const wire = await world.daemon.session();
  const task = { payload: 1, runAt: '9999-12-31T23:59:59-23:59' };
  expect(await wire.refused('queue.enqueue', { queue: 'q', tasks: [task] })).toMatchObject({
    code: 'BAD_REQUEST',
    path: 'tasks[0].runAt',
  });
  await wire.close();
});

test('a DEL in a message reaches the feed as it was sent', async () => {
  const { daemon } = world;
  const wire = await daemon.session();
  await wire.call('feed.subscribe', { types: ['task.dead'] });
  await wire.call('queue.enqueue', { queue: 'del', tasks: [{ payload: 1, task: 'del', maxAttempts: 1 }] });
  const { tasks } = await wire.call('queue.claim', { queue: 'del' });
  await wire.call('queue.fail', { tasks: [{ task: 'del', fence: tasks[0].fence, error: { message: 'a\u007fb' } }] });
  expect((await wire.event('task.dead', 'del')).event.data.error.message).toBe('a\u007fb');
  await wire.close();
});

test('stats of many queues with long, escaped names come in pages that fit a line', async () => {
  const wire = await world.daemon.session();
  const pad = (name: string): string => name + '"'.repeat(200 - name.length);
  for (let q = 0; q < 12; q++) {
    const tasks = Array.from({ length: 64 }, (_, k) => ({
      payload: 1,
      kind: pad(`k${k}-`),
      tenant: pad(`t${k % 20}-`),
    }));
    await wire.call('queue.enqueue', { queue: pad(`q${q}-`), tasks });
  }
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await wire.call('queue.stats', cursor === undefined ? {} : { cursor });
    seen.push(...page.queues.map(({ queue }: { queue: string }) => queue));
    if (page.cursor === undefined) break;
    cursor = page.cursor;
  }
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen.filter((name) => name.endsWith('""'))).toHaveLength(12);
  await wire.close();
});

test('a script that fails leaves no payload in the log', async () => {
  const { daemon, redis } = world;
  const wire = await daemon.session();
  await redis.client().set('sb:{default}:queue:broken', 'not a hash');
  const error = await wire.refused('queue.enqueue', { queue: 'broken', tasks: [{ payload: { secret: 'HUNTER2' } }] });
  expect(error.code).toBe('INTERNAL');
  await expect.poll(() => daemon.output()).toContain(error.details.ref);
  expect(daemon.output()).not.toContain('HUNTER2');
  await redis.client().del('sb:{default}:queue:broken');
  await wire.close();
});

test('a full Redis lets an agent in to empty it', async () => {
  const { daemon, redis } = world;
  const first = await daemon.session();
  await first.call('queue.enqueue', {
    queue: 'full',
    tasks: Array.from({ length: 50 }, () => ({ payload: 'x'.repeat(1000) })),
  });
  await first.call('session.close');
  const client = redis.client();
  const used = Number(/used_memory:(\d+)/.exec(await client.info('memory'))![1]);
  await client.config('SET', 'maxmemory', used - 300_000);
  const second = await daemon.session();
  const { tasks } = await second.call('queue.claim', { queue: 'full', count: 5 });
  expect(tasks).toHaveLength(5);
  await second.call('queue.complete', {
    tasks: tasks.map(({ task, fence }: { task: string; fence: number }) => ({ task, fence })),
  });
  const [refused] = (await second.call('queue.enqueue', { queue: 'full', tasks: [{ payload: 1 }] })).tasks;
  expect(refused.error).toMatchObject({ code: 'OVERLOADED', retry: true, details: { scope: 'memory' } });
  await client.config('SET', 'maxmemory', 0);
  await second.close();
});
