import { expect, test } from 'vitest';
import type { Delivery } from '../../src/client/index.js';
import { deferred } from './fake-daemon.js';
import { behind, client, queue, useDaemon } from './real.js';
import { rejection, useRig } from './rig.js';

useRig();

useDaemon();

test('Q3: the answer to an enqueue is lost: exactly one task for its key', async () => {
  const { sb, link } = await behind();
  const q = queue();
  link.swallowNext();
  const { deduplicated } = await sb.enqueue(q, 1, { key: 'k' });
  expect(deduplicated).toBe(true);
  expect((await sb.queue.stats({ queue: q })).queues[0]?.depth).toBe(1);
  expect(link.connections).toBe(2);
});

test('Q3: the answer to a completion is lost: it counts once, and its task does not run again', async () => {
  const { sb, link } = await behind();
  const q = queue();
  let runs = 0;
  const worker = sb.work(q, {}, () => {
    runs++;
    link.swallowNext();
    return 'r';
  });
  await worker.ready;
  const other = await client({ agent: 'a2' });
  const { task } = await other.enqueue(q, 1);
  expect(await other.result(task)).toEqual({ state: 'completed', result: 'r' });
  await worker.stop();
  const { history } = await other.queue.get({ task });
  expect(history).toMatchObject([{ attempt: 1, outcome: 'completed' }]);
  expect(runs).toBe(1);
  expect(link.connections).toBe(2);
});

test('Q3: the answer to a claim is lost: it is given back, and not two tasks are taken for one', async () => {
  const { sb, link } = await behind();
  const other = await client({ agent: 'a2' });
  const q = queue();
  await Promise.all([other.enqueue(q, 1), other.enqueue(q, 2)]);
  link.swallowNext();
  expect(await rejection(sb.queue.claim({ queue: q }))).toMatchObject({ code: 'TIMEOUT' });
  const handed: number[] = [];
  const both = deferred();
  other.work(q, {}, ({ attempt }) => {
    if (handed.push(attempt) === 2) both.resolve();
  });
  await both.promise;
  expect(handed).toEqual([1, 1]);
});

test('F3: 200 cuts while events flow: every resume succeeds, nothing is lost, nothing doubled', async () => {
  const { sb, link } = await behind();
  const publisher = await client({ agent: 'a2' });
  const got: number[] = [];
  const all = deferred();
  const total = 1000;
  await sb.subscribe({ types: ['flow.x'] }, ({ event, gap }) => {
    if (gap) all.reject(new Error(`gap ${JSON.stringify(gap)}`));
    else if (event && got.push((event.data as { n: number }).n) === total) all.resolve();
  });
  for (let n = 0; n < total; n++) {
    await publisher.publish('flow.x', { n });
    if (n % 5 === 0) link.cut();
  }
  await all.promise;
  expect(got).toEqual(Array.from({ length: total }, (_, n) => n));
  expect(link.connections).toBeGreaterThan(100);
});

test('several subscriptions are restored together; a later one is widened into the cursor', async () => {
  const { sb, link } = await behind();
  const publisher = await client({ agent: 'a2' });
  const got: string[] = [];
  const listen =
    (name: string) =>
    ({ event }: Delivery) =>
      void got.push(`${name} ${event?.type}`);
  await sb.subscribe({ types: ['one.*'] }, listen('A'));
  await sb.subscribe({ types: ['two.*'] }, listen('B'));
  link.cut();
  await publisher.publish('one.x');
  await publisher.publish('two.x');
  await sb.subscribe({ types: ['*.y'] }, listen('C'));
  await publisher.publish('two.y');
  const end = deferred();
  await sb.subscribe({ types: ['end.of'] }, () => end.resolve());
  await publisher.publish('end.of');
  await end.promise;
  expect(got.sort()).toEqual(['A one.x', 'B two.x', 'B two.y', 'C two.y']);
});

test('a slow iterator beside a fast log sees all of it', async () => {
  const sb = await client({ feedBuffer: 32 });
  const publisher = await client({ agent: 'a2' });
  const total = 3000;
  const subscription = await sb.subscribe({ types: ['slow.x'] });
  const published = Promise.all(Array.from({ length: total }, (_, n) => publisher.publish('slow.x', { n })));
  const got: number[] = [];
  for await (const { event } of subscription) {
    if (!event) continue;
    got.push((event.data as { n: number }).n);
    // The loop asks something itself now and then: that must not hang.
    if (got.length % 100 === 0) await sb.ping();
    if (got.length === total) break;
  }
  await published;
  expect(got).toEqual(Array.from({ length: total }, (_, n) => n));
});

test('F3: a subscription made while another one is full costs neither of them an event', async () => {
  const sb = await client({ feedBuffer: 50 });
  const publisher = await client({ agent: 'a2' });
  const total = 2000;
  const got: unknown[] = [];
  const gate = deferred();
  const all = deferred();
  await sb.subscribe({ types: ['full.x'] }, (delivery) => {
    const { n } = (delivery.event?.data ?? {}) as { n?: number };
    if (got.push(n ?? delivery) === total) all.resolve();
    return gate.promise;
  });
  const fill = 'x'.repeat(500);
  await Promise.all(Array.from({ length: total }, (_, n) => publisher.publish('full.x', { n, fill })));
  const other = deferred<unknown>();
  await sb.subscribe({ types: ['other.x'] }, ({ event }) => other.resolve(event?.data));
  await publisher.publish('other.x', 'seen');
  gate.resolve();
  expect(await other.promise).toBe('seen');
  await all.promise;
  expect(got).toEqual(Array.from({ length: total }, (_, n) => n));
});

test('L1: a link that goes silent: the handler is told in time, its result is dropped, the task runs again elsewhere', async () => {
  const { sb, link } = await behind({ ttlMs: 600 });
  const q = queue();
  const told = deferred<number>();
  const started = deferred();
  const worker = sb.work(q, {}, async (_task, { signal }) => {
    started.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    told.resolve(performance.now());
    return 'A';
  });
  await worker.ready;
  const other = await client({ agent: 'a2' });
  const { task } = await other.enqueue(q, 1);
  await started.promise;
  link.silence();
  const cutAt = performance.now();
  let takenAt = 0;
  other.work(q, {}, () => {
    takenAt = performance.now();
    return 'B';
  });
  expect((await told.promise) - cutAt).toBeLessThan(600);
  expect(await other.result(task)).toEqual({ state: 'completed', result: 'B' });
  expect(takenAt).toBeGreaterThan(await told.promise);
  link.heal();
});

test('a session that ended under an open socket is replaced, handlers are told, and the worker works on', async () => {
  const sb = await client();
  const admin = await client({ agent: 'a2' });
  const q = queue();
  const reasons: unknown[] = [];
  const started = deferred();
  const worker = sb.work(q, {}, async ({ attempt }, { signal }) => {
    if (attempt > 1) return attempt;
    started.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    reasons.push(signal.reason.reason);
    return undefined;
  });
  await worker.ready;
  const before = sb.identity?.session;
  const { task } = await admin.enqueue(q, 1);
  await started.promise;
  await admin.lease.revoke({ lease: `session:${before}`, reason: 'test' });
  expect(await admin.result(task)).toEqual({ state: 'completed', result: 2 });
  expect(reasons).toEqual(['sessionLost']);
  expect(sb.identity?.session).not.toBe(before);
});
