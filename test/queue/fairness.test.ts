import { expect, test } from 'vitest';
import type { Any, Wire } from '../support/wire.js';
import { claim, complete, drain, freshQueue, put, putMany, useWorld } from './support.js';

const { daemon } = useWorld();
const tenantOf = (task: Any): string => task.task.split('/').at(-2);

/** The next `count` dispatches of the queue, one worker slot at a time. */
async function dispatches(wire: Wire, queue: string, count: number, more: Any = {}): Promise<string[]> {
  const tenants: string[] = [];
  for (let i = 0; i < count; i++) {
    const [task] = await claim(wire, queue, more);
    tenants.push(tenantOf(task));
    await complete(wire, task);
  }
  return tenants;
}
const fill = (wire: Wire, queue: string, tenant: string, count: number, more: Any = {}): Promise<string[]> =>
  putMany(wire, queue, count, { tenant, ...more }, `${queue}/${tenant}`);
const share = (tenants: readonly string[], tenant: string): number => tenants.filter((one) => one === tenant).length;

test('A23: a backlog of 10,000 does not keep others waiting: the newcomer starts within three dispatches', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await fill(wire, queue, 'A', 10_000);
  await dispatches(wire, queue, 50);
  await fill(wire, queue, 'B', 10);
  await fill(wire, queue, 'C', 1);
  const next = await dispatches(wire, queue, 25);
  expect(next.indexOf('C')).toBeLessThan(3);
  expect(next.lastIndexOf('B')).toBeLessThan(24);
  expect(share(next.slice(0, next.lastIndexOf('B')), 'A')).toBeLessThanOrEqual(12);
  for (let cursor: string | undefined; ; ) {
    cursor = (await wire.call('queue.purge', { queue, ...(cursor ? { cursor } : {}) })).cursor;
    if (cursor === undefined) break;
  }
}, 60_000);

test('Q21: under contention every tenant gets its share, a heavy one split into thirty kinds no more than that', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await Promise.all(
    Array.from({ length: 30 }, (_, kind) =>
      putMany(wire, queue, 8, { tenant: 'heavy', kind: `k${kind}` }, `${queue}/${kind}/heavy`),
    ),
  );
  for (const light of ['l1', 'l2', 'l3', 'l4', 'l5']) await fill(wire, queue, light, 20);
  const contended = await dispatches(wire, queue, 120);
  for (const light of ['l1', 'l2', 'l3', 'l4', 'l5']) expect(share(contended, light), light).toBeGreaterThanOrEqual(18);
  await drain(wire, queue);
});

test('Q21: a tenant that was idle has saved nothing, and one that is idle leaves its share to the others', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await fill(wire, queue, 'idle', 1);
  await fill(wire, queue, 'busy', 300);
  await dispatches(wire, queue, 150);
  await putMany(wire, queue, 100, { tenant: 'idle' }, `${queue}/later/idle`);
  const next = await dispatches(wire, queue, 60);
  expect(Math.abs(share(next, 'idle') - 30)).toBeLessThanOrEqual(2);
  await drain(wire, queue);
});

test('Q21: what a tenant gets in one lane counts in every other: lanes gain it nothing', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await fill(wire, queue, 'split', 200, { kind: 'a' });
  await putMany(wire, queue, 200, { tenant: 'split', kind: 'b' }, `${queue}/b/split`);
  await fill(wire, queue, 'plain', 200, { kind: 'b' });
  // Lane a serves the split tenant alone, to a hundred ahead; lane b then makes it good.
  expect(share(await dispatches(wire, queue, 100, { kinds: ['a'] }), 'split')).toBe(100);
  const inB = await dispatches(wire, queue, 100, { kinds: ['b'] });
  expect(share(inB, 'plain')).toBeGreaterThanOrEqual(98);
  expect(share(await dispatches(wire, queue, 20, { kinds: ['a'] }), 'split')).toBe(20);
  expect(share(await dispatches(wire, queue, 20, { kinds: ['b'] }), 'plain')).toBeGreaterThanOrEqual(18);
  await drain(wire, queue);
});

test('a batch is as fair as single claims, and its tenants take turns in it', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  for (const tenant of ['x', 'y', 'z']) await fill(wire, queue, tenant, 50);
  const tasks = await claim(wire, queue, { count: 90 });
  for (let i = 0; i < 90; i += 3) expect(new Set(tasks.slice(i, i + 3).map(tenantOf)).size).toBe(3);
  await complete(wire, ...tasks);
  await drain(wire, queue);
});

test('many tenants, more than a claim looks at: each has one start before any has two', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const tenants = Array.from({ length: 150 }, (_, i) => `t${i}`);
  await put(
    wire,
    queue,
    ...tenants.flatMap((tenant) => [0, 1].map((i) => ({ payload: i, tenant, task: `${queue}/${tenant}/${i}` }))),
  );
  const order = await drain(wire, queue);
  expect(new Set(order.slice(0, 150).map(tenantOf)).size).toBe(150);
  expect(order.length).toBe(300);
});

test('Q21: a trickle against a backlog of held tasks starts with the next slots that free', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await fill(wire, queue, 'backlog', 300);
  const worker = await daemon().session();
  await worker.call('queue.work', { queue, credit: 5, worker: 'w' });
  const running = [...(await worker.tasksUntil(5))];
  /** Frees a slot and waits for what takes it. */
  const turn = async (): Promise<string> => {
    const count = worker.tasks().length + 1;
    await complete(worker, running.shift());
    const [next] = (await worker.tasksUntil(count)).slice(-1);
    running.push(next);
    return tenantOf(next);
  };
  for (let i = 0; i < 30; i++) {
    await put(wire, queue, { payload: i, tenant: 'trickle', task: `${queue}/trickle/${i}` });
    const tenants = [await turn(), await turn()];
    expect(share(tenants, 'trickle'), `arrival ${i}: ${tenants}`).toBe(1);
  }
  await worker.call('queue.credit', { worker: 'w', credit: 0 });
  await complete(worker, ...running);
  await drain(wire, queue);
});
