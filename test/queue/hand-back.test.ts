import { beforeAll, expect, test } from 'vitest';
import type { Wire } from '../support/wire.js';
import { nearAndFar } from './near-and-far.js';
import { complete, freshQueue, get, put, watch } from './support.js';

// The story: a claim was carried out and its answer lost, and what nobody ever saw stayed active for a worker that lived on.

// What goes back is refunded long before the grace of a broken socket takes it.
const settings = { 'session.graceMs': 20_000 };
// Its workers ask when there is news, and are free then: the script that brings it is the one that claims.
const rig = nearAndFar({ ...settings, 'sweep.everyMs': 30_000 }, settings);
let watcher: Wire;
beforeAll(async () => {
  watcher = await watch(rig.far);
});

const released = (task: string) => watcher.event('task.released', task, 5000);

/** The claim reaches Redis at once, and its answer comes when `act` is done: how it is lost on the way back matters. */
async function claimedMeanwhile(queue: string, act: () => Promise<unknown>): Promise<void> {
  rig.proxy.delay(400);
  await put(rig.producer, queue, { payload: 1, task: `${queue}/0` });
  await watcher.event('task.claimed', `${queue}/0`);
  const lost = rig.proxy.swallowRequest('undelivered');
  await act();
  await lost;
  rig.proxy.delay(0);
}

test('Q3: after an outage of 17 s what a lost reply had claimed goes back, uncharged, though nobody asks any more', async () => {
  const [worker, caller] = await Promise.all([
    rig.near.session({ ttlMs: 60_000 }),
    rig.near.session({ ttlMs: 60_000 }),
  ]);
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await worker.call('ping'); // it has asked, and found nothing
  const names = [0, 1].map((i) => `${queue}/${i}`);
  const swallowed = rig.proxy.swallowReply(names[0]!).then(() => rig.proxy.refuse());
  // In one message, so that one script puts the tasks and gives one to the worker and one to the claim.
  const lines = [
    { id: 901, op: 'queue.enqueue', params: { queue, tasks: names.map((task) => ({ payload: 1, task })) } },
    { id: 902, op: 'queue.claim', params: { queue } },
  ];
  caller.send(lines.map((line) => JSON.stringify(line)).join('\n'));
  await swallowed;
  await worker.call('queue.credit', { worker: 'w', credit: 0 });
  expect((await caller.next(({ id }) => id === 902)).error.code).toMatch(/^(TIMEOUT|UNAVAILABLE)$/);
  for (const name of names) expect((await get(rig.producer, name)).state).toBe('active');
  await new Promise((resolve) => setTimeout(resolve, 17_000)); // the length of the outage is what is tested
  rig.proxy.heal();
  for (const name of names)
    expect((await released(name)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
  await worker.call('queue.credit', { worker: 'w', credit: 2 });
  const tasks = await worker.tasksUntil(2);
  expect(tasks.map(({ attempt }) => attempt)).toEqual([1, 1]);
  for (const done of await complete(worker, ...tasks)) expect(done).toEqual({ state: 'completed' });
}, 60_000);

test('Q3: a hand-back after a lost claim that is lost as well is made again', async () => {
  const worker = await rig.near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await worker.call('ping'); // it has asked, and found nothing
  const lost = rig.proxy.swallowReply(`${queue}/0`).then(() => {
    const again = rig.proxy.swallowRequest(`${queue}/0`);
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
  const worker = await rig.near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  await worker.call('queue.work', { queue, credit: 1, worker: 'w' });
  await worker.call('ping'); // it has asked, and found nothing
  await claimedMeanwhile(queue, () => worker.call('queue.credit', { worker: 'w', credit: 0 }));
  expect((await released(`${queue}/0`)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
  expect(worker.tasks()).toEqual([]);
  await rig.producer.call('queue.purge', { queue });
});

test.each(['worker', 'claim'])(
  'what comes for a %s whose socket has gone goes back uncharged, though the first hand-back is lost',
  async (what) => {
    const wire = await rig.near.session({ ttlMs: 60_000 });
    const queue = freshQueue();
    if (what === 'worker') await wire.call('queue.work', { queue, credit: 1, worker: 'w' });
    else wire.call('queue.claim', { queue, waitMs: 120_000 }).catch(() => undefined);
    await wire.call('ping');
    await claimedMeanwhile(queue, async () => wire.cut());
    expect((await released(`${queue}/0`)).event.data).toMatchObject({ reason: 'undelivered', state: 'ready' });
    await rig.producer.call('queue.purge', { queue });
  },
);

test('a claim that waits is answered when its time is over, though Redis is away', async () => {
  const caller = await rig.near.session({ ttlMs: 60_000 });
  const queue = freshQueue();
  const claimed = caller.refused('queue.claim', { queue, waitMs: 1000 });
  await caller.call('ping');
  const queueing = rig.proxy.swallowReply(queue).then(() => rig.proxy.refuse());
  put(caller, queue, { payload: 1 }).catch(() => undefined);
  await queueing;
  const askedAt = performance.now();
  expect((await claimed).code).toMatch(/^(TIMEOUT|UNAVAILABLE)$/);
  expect(performance.now() - askedAt).toBeLessThan(5000);
  rig.proxy.heal();
  await watcher.next(({ event }) => event?.type === 'task.released' && event.data.queue === queue, 5000);
  await rig.producer.call('queue.purge', { queue });
});
