import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startDaemon, type TestDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import type { Wire } from '../support/wire.js';
import { checkAtRest } from './at-rest.js';
import { complete, freshQueue, get, put, watch } from './support.js';

/** What was claimed for somebody who never saw it goes back, whatever becomes of the link. `near` goes through the proxy. */
let redis: TestRedis;
let proxy: FaultProxy;
let near: TestDaemon;
let far: TestDaemon;
let watcher: Wire;
let producer: Wire;
beforeAll(async () => {
  // What goes back is refunded long before the grace of a broken socket takes it.
  const settings = { 'session.graceMs': 20_000 };
  // Its workers ask when there is news, and are free then: the script that brings it is the one that claims.
  const rare = { ...settings, 'sweep.everyMs': 30_000 };
  redis = await startRedis();
  proxy = await startProxy(redis.path);
  [near, far] = await Promise.all([
    startDaemon(`redis://127.0.0.1:${proxy.port}`, rare),
    startDaemon(redis.path, settings),
  ]);
  watcher = await watch(far);
  producer = await far.session({ ttlMs: 120_000 });
});
afterAll(async () => {
  proxy.heal();
  await checkAtRest(redis);
  await Promise.all([near.stop(), far.stop()]);
  await proxy.close();
  await redis.stop();
});
afterEach(() => proxy.heal());

const released = (task: string) => watcher.event('task.released', task, 5000);

/** The claim reaches Redis at once, and its answer comes when `act` is done: how it is lost on the way back matters. */
async function claimedMeanwhile(queue: string, act: () => Promise<unknown>): Promise<void> {
  proxy.delay(400);
  await put(producer, queue, { payload: 1, task: `${queue}/0` });
  await watcher.event('task.claimed', `${queue}/0`);
  const lost = proxy.swallowRequest('undelivered');
  await act();
  await lost;
  proxy.delay(0);
}

test('Q3: after an outage of 17 s what a lost reply had claimed goes back, uncharged, though nobody asks any more', async () => {
  const [worker, caller] = await Promise.all([near.session({ ttlMs: 60_000 }), near.session({ ttlMs: 60_000 })]);
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await worker.call('ping'); // it has asked, and found nothing
  const names = [0, 1].map((i) => `${queue}/${i}`);
  const swallowed = proxy.swallowReply(names[0]!).then(() => proxy.refuse());
  // In one message, so that one script puts the tasks and gives one to the worker and one to the claim.
  const lines = [
    { id: 901, op: 'queue.enqueue', params: { queue, tasks: names.map((task) => ({ payload: 1, task })) } },
    { id: 902, op: 'queue.claim', params: { queue } },
  ];
  caller.send(lines.map((line) => JSON.stringify(line)).join('\n'));
  await swallowed;
  await worker.call('queue.credit', { worker: 'w', credit: 0 });
  expect((await caller.next(({ id }) => id === 902)).error.code).toMatch(/^(TIMEOUT|UNAVAILABLE)$/);
  for (const name of names) expect((await get(producer, name)).state).toBe('active');
  await new Promise((resolve) => setTimeout(resolve, 17_000)); // the length of the outage is what is tested
  proxy.heal();
  for (const name of names)
    expect((await released(name)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
  await worker.call('queue.credit', { worker: 'w', credit: 2 });
  const tasks = await worker.tasksUntil(2);
  expect(tasks.map(({ attempt }) => attempt)).toEqual([1, 1]);
  for (const done of await complete(worker, ...tasks)) expect(done).toEqual({ state: 'completed' });
}, 60_000);

test('Q3: a hand-back after a lost claim that is lost as well is made again', async () => {
  const worker = await near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await worker.call('ping'); // it has asked, and found nothing
  const lost = proxy.swallowReply(`${queue}/0`).then(() => {
    const again = proxy.swallowRequest(`${queue}/0`);
    return { again };
  });
  put(worker, queue, { payload: 1, task: `${queue}/0` }).catch(() => undefined);
  const { again } = await lost;
  await worker.call('queue.credit', { worker: 'w', credit: 0 });
  await again;
  expect((await released(`${queue}/0`)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
  await worker.call('queue.credit', { worker: 'w', credit: 1 });
  const [task] = await worker.tasksUntil(1);
  expect(task).toMatchObject({ task: `${queue}/0`, attempt: 1 });
  expect(await complete(worker, task)).toEqual([{ state: 'completed' }]);
});

test('what comes for a worker without credit goes back, though the first hand-back is lost', async () => {
  const worker = await near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await worker.call('ping'); // it has asked, and found nothing
  await claimedMeanwhile(queue, () => worker.call('queue.credit', { worker: 'w', credit: 0 }));
  expect((await released(`${queue}/0`)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
  expect(worker.tasks()).toEqual([]);
  await producer.call('queue.purge', { queue });
});

test.each(['worker', 'claim'])(
  'what comes for a %s whose socket has gone goes back uncharged, though the first hand-back is lost',
  async (what) => {
    const wire = await near.session({ ttlMs: 60_000 });
    const queue = freshQueue();
    if (what === 'worker') await wire.call('queue.work', { queue, credit: 1, worker: 'w' });
    else wire.call('queue.claim', { queue, waitMs: 120_000 }).catch(() => undefined);
    await wire.call('ping');
    await claimedMeanwhile(queue, async () => wire.cut());
    expect((await released(`${queue}/0`)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
    await producer.call('queue.purge', { queue });
  },
);

test('a claim that waits is answered when its time is over, though Redis is away', async () => {
  const caller = await near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  const claimed = caller.refused('queue.claim', { queue, waitMs: 1000 });
  await caller.call('ping');
  const queueing = proxy.swallowReply(queue).then(() => proxy.refuse());
  put(caller, queue, { payload: 1 }).catch(() => undefined);
  await queueing;
  const askedAt = performance.now();
  expect((await claimed).code).toMatch(/^(TIMEOUT|UNAVAILABLE)$/);
  expect(performance.now() - askedAt).toBeLessThan(5000);
  proxy.heal();
  await watcher.next(({ event }) => event?.type === 'task.released' && event.data.queue === queue, 5000);
  await producer.call('queue.purge', { queue });
});
