import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRemote } from '../support/remote.js';
import { type Any, Wire } from '../support/wire.js';
import { at, eventsOf, fill, get, hold, refs, sessionEvent, story, watch } from './support.js';

/** The rows of the ownership table (ARCHITECTURE.md) that one socket and one daemon can bring about. */
const graceMs = 1000;
const receiptMs = 600;
/** A session that is to end by itself lives this long; one that is not, much longer. Late is a matter of the machine. */
const ttlMs = 2000;
const lateMs = 3000;
let world: World;
let daemon: TestDaemon;
let watcher: Wire;
let producer: Wire;
beforeAll(async () => {
  world = await startWorld({
    'session.ttlMinMs': 300,
    'session.graceMs': graceMs,
    'session.receiptMs': receiptMs,
    'gateway.stallMs': 1000,
  });
  daemon = world.daemon;
  watcher = await watch(daemon);
  producer = await daemon.session({ agent: 'producer' });
});
afterAll(() => world.stop());

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** A hurt link to the daemon; it is closed with its test's world. */
const link = (): Promise<FaultProxy> => startProxy(Number(new URL(daemon.url).port));
const through = (proxy: FaultProxy): string => `ws://127.0.0.1:${proxy.port}/v1/ws`;

describe.concurrent('the ownership table: one socket', () => {
  test.each([[1000], [1001], [undefined]])(
    '[1a] A12(c): close frame %s from the client: all back at once, charged',
    async (code) => {
      const wire = await daemon.session({ ttlMs: 20_000 });
      const queue = await fill(producer, 2, { maxAttempts: 2 });
      await hold(wire, queue);
      const closedAt = Date.now();
      if (code) wire.socket.close(code);
      else wire.socket.close();
      const back = await eventsOf(watcher, 'task.retried', queue, 2);
      expect(at(back[1]) - closedAt).toBeLessThan(graceMs); // well before any grace: nobody waited
      expect(back.map(({ event }) => event.data)).toMatchObject([
        { reason: 'sessionLost', attempt: 1, session: wire.opened.session, agent: 'agent' },
        { reason: 'sessionLost', attempt: 1 },
      ]);
      expect((await sessionEvent(watcher, 'session.closed', wire.opened.session)).event.data.reason).toBe('closed');
      expect(await hold(producer, queue)).toMatchObject([{ attempt: 2 }, { attempt: 2 }]);
    },
  );

  test('[2h] a close frame of another code is a broken socket: the grace runs', async () => {
    const wire = await daemon.session({ ttlMs: 20_000 });
    const queue = await fill(producer, 1);
    await hold(wire, queue);
    const closedAt = Date.now();
    wire.socket.close(4000, 'crash');
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - closedAt).toBeGreaterThanOrEqual(graceMs - 5);
    expect((await watcher.call('lease.list', { session: wire.opened.session })).leases).toHaveLength(1);
  });

  test.each(['cut', 'reset'] as const)(
    '[2a] socket broken (%s): work after the grace, charged; the session lives on to its ttl',
    async (how) => {
      const proxy = await link();
      const wire = await Wire.session(through(proxy), { ttlMs });
      const queue = await fill(producer, 2);
      await hold(wire, queue);
      const heardAt = Date.now();
      await wire.call('ping');
      const cutAt = Date.now();
      proxy[how]();
      const back = await eventsOf(watcher, 'task.retried', queue, 2);
      expect(at(back[0]) - cutAt).toBeGreaterThanOrEqual(graceMs - 5);
      expect(at(back[0]) - cutAt).toBeLessThan(ttlMs);
      expect(back[0].event.data).toMatchObject({ reason: 'sessionLost', attempt: 1, state: 'ready' });
      const lost = await sessionEvent(watcher, 'session.lost', wire.opened.session);
      expect(lost.event.data.reason).toBe('expired');
      expect(at(lost) - heardAt).toBeGreaterThanOrEqual(ttlMs);
      expect(lost.offset).toBeGreaterThan(back[1].offset);
      await proxy.close();
    },
  );

  test('[2b] a ttl shorter than the grace: all at the ttl', async () => {
    const wire = await daemon.session({ ttlMs: 600 });
    const queue = await fill(producer, 1);
    const heardAt = Date.now();
    await hold(wire, queue);
    wire.cut();
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - heardAt).toBeGreaterThanOrEqual(600);
    expect(at(back) - heardAt).toBeLessThan(600 + lateMs);
  });

  test('[2c] half a cut link, agent to daemon: nothing is given away before the ttl after the last frame that came through', async () => {
    const proxy = await link();
    const wire = await Wire.session(through(proxy), { ttlMs });
    const queue = await fill(producer, 1);
    const [task] = await hold(wire, queue);
    const heardAt = Date.now();
    await wire.call('ping');
    proxy.stall('up');
    const beat = setInterval(() => wire.send('{"id":999,"op":"ping","params":{}}'), 50); // a living agent, unheard
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    clearInterval(beat);
    expect(at(back) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect(at(back) - heardAt).toBeLessThan(ttlMs + lateMs);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    proxy.heal();
    await wire.until(() => wire.closed);
    const [again] = await hold(producer, queue);
    expect(again).toMatchObject({ task: task.task, attempt: 2 });
    await proxy.close();
  });

  test('[2d] half a cut link, daemon to agent: its frames keep the session, a push it cannot get goes back refunded', async () => {
    const proxy = await link();
    const wire = await Wire.session(through(proxy), { ttlMs });
    const queue = await fill(producer, 1);
    const [held] = await hold(wire, queue);
    const more = `${queue}x`;
    await wire.call('queue.work', { queue: more, credit: 5, worker: 'w' });
    proxy.stall('down');
    const beat = setInterval(() => wire.send('{"id":999,"op":"ping","params":{}}'), 100);
    await producer.call('queue.enqueue', { queue: more, tasks: [{ payload: 1, task: `${more}.0` }] });
    const [released] = await eventsOf(watcher, 'task.released', more);
    expect(released.event.data).toMatchObject({ reason: 'undelivered', attempt: 1, state: 'ready' });
    await wait(1.5 * ttlMs);
    expect(story(watcher, queue)).toEqual(['task.enqueued', 'task.claimed']);
    expect(await get(producer, held.task)).toMatchObject({ state: 'active', attempt: 1 });
    clearInterval(beat);
    await sessionEvent(watcher, 'session.lost', wire.opened.session); // and when they stop, it ends
    await proxy.close();
  });

  test('[2e] a reader that stalls is closed by us (4508): like a broken socket', async () => {
    const wire = await daemon.session({ ttlMs: 20_000 });
    const queue = await fill(producer, 1);
    await hold(wire, queue);
    await wire.call('feed.subscribe', { types: ['load.>'] });
    wire.socket.pause();
    const events = Array.from({ length: 12 }, () => ({ type: 'load.x', data: 'x'.repeat(60_000) }));
    for (let i = 0; i < 16; i++) await producer.call('feed.publish', { events });
    const [back] = await eventsOf(watcher, 'task.retried', queue, 1, 20_000);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    const { leases } = await watcher.call('lease.list', { session: wire.opened.session });
    expect(leases).toHaveLength(1);
    const again = await daemon.wire();
    const { lastClose } = await again.call('session.open', {
      agent: 'a',
      resume: { session: wire.opened.session, key: wire.opened.key },
    });
    expect(lastClose.code).toBe(4508);
    wire.cut();
  });

  test('[2f] misuse closed by us (4400): like a broken socket', async () => {
    const wire = await daemon.session({ ttlMs: 20_000 });
    const queue = await fill(producer, 1);
    await hold(wire, queue);
    const sentAt = Date.now();
    for (let i = 0; i < 3; i++) wire.send('not json');
    expect((await wire.until(() => wire.closed)).code).toBe(4400);
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - sentAt).toBeGreaterThanOrEqual(graceMs);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
  });

  test('[3a] Q4: open but no receipt: that push goes back after receiptMs, refunded, nothing more is pushed; the session lives to its ttl', async () => {
    const agent = await startRemote(daemon.url);
    const { session } = await agent.wire.call('session.open', { agent: 'frozen', ttlMs });
    const queue = await fill(producer, 0);
    const [early] = await hold(agent.wire, await fill(producer, 1));
    await agent.wire.call('queue.work', { queue, credit: 1, worker: 'w' });
    const heardAt = Date.now();
    await agent.wire.call('ping');
    agent.freeze();
    const pushedAt = Date.now();
    await producer.call('queue.enqueue', { queue, tasks: [{ payload: 1, task: `${queue}.0` }] });
    const [back] = await eventsOf(watcher, 'task.released', queue);
    expect(at(back) - pushedAt).toBeGreaterThanOrEqual(receiptMs - 30);
    expect(at(back) - pushedAt).toBeLessThan(receiptMs + lateMs);
    expect(back.event.data).toMatchObject({ reason: 'undelivered', attempt: 1, state: 'ready' });
    await wait(300);
    expect(story(watcher, queue)).toEqual(['task.enqueued', 'task.claimed', 'task.released undelivered']);
    // Another worker has it, and not as a second attempt.
    const [given] = await hold(producer, queue);
    expect(given).toMatchObject({ task: `${queue}.0`, attempt: 1 });
    const lost = await sessionEvent(watcher, 'session.lost', session);
    expect(at(lost) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect((await watcher.event('task.retried', early.task)).event.data).toMatchObject({ reason: 'sessionLost' });
    agent.kill();
  });

  test('[3b] A11: thawed before its ttl: the pong makes the worker a worker again, and what was taken back is told', async () => {
    const agent = await startRemote(daemon.url);
    await agent.wire.call('session.open', { agent: 'dozing', ttlMs: 20_000 });
    const queue = await fill(producer, 0);
    await agent.wire.call('queue.work', { queue, credit: 1, worker: 'w' });
    agent.freeze();
    await producer.call('queue.enqueue', { queue, tasks: [{ payload: 1, task: `${queue}.0` }] });
    await eventsOf(watcher, 'task.released', queue);
    agent.thaw();
    const tasks = await agent.wire.tasksUntil(2);
    expect(tasks.map(({ task, attempt }: Any) => [task, attempt])).toEqual([
      [`${queue}.0`, 1],
      [`${queue}.0`, 1],
    ]);
    const done = await agent.wire.call('queue.complete', { tasks: refs(tasks) });
    expect(done.tasks[0].error).toMatchObject({
      code: 'STALE_FENCE',
      details: { yours: tasks[0].fence, current: tasks[1].fence },
    });
    expect(done.tasks[1]).toEqual({ state: 'completed' });
    expect(await get(producer, `${queue}.0`)).toMatchObject({ attempt: 1, refunds: 1 });
    agent.kill();
  });

  test('[4a] Q13 A13: a client frozen beyond its ttl: all at the ttl, charged; thawed, it is told and fenced out', async () => {
    const agent = await startRemote(daemon.url);
    const { session } = await agent.wire.call('session.open', { agent: 'zombie', ttlMs });
    const queue = await fill(producer, 1);
    const [mine] = await hold(agent.wire, queue);
    const heardAt = Date.now();
    await agent.wire.call('ping');
    agent.freeze();
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect(at(back) - heardAt).toBeLessThan(ttlMs + lateMs);
    const [theirs] = await hold(producer, queue);
    expect(theirs).toMatchObject({ attempt: 2 });
    expect(theirs.fence).toBeGreaterThan(mine.fence);
    agent.thaw();
    // What it tries reaches the socket before it reads that it is lost, if that is still there.
    const ref = { task: mine.task, fence: mine.fence };
    const tries = [
      agent.wire.call('queue.progress', { ...ref, progress: 1 }),
      agent.wire
        .call('queue.complete', { tasks: [{ ...ref, result: 'A' }] })
        .then(({ tasks }) => Promise.reject(tasks[0])),
      agent.wire
        .call('queue.release', { tasks: [{ ...ref, reason: 'late' }] })
        .then(({ tasks }) => Promise.reject(tasks[0])),
    ];
    for (const outcome of await Promise.allSettled(tries)) {
      expect(outcome.status).toBe('rejected');
      const { error } = (outcome as PromiseRejectedResult).reason;
      if (error)
        expect(error).toMatchObject({ code: 'STALE_FENCE', details: { yours: mine.fence, current: theirs.fence } });
    }
    const resumer = await daemon.wire();
    expect((await resumer.refused('session.open', { agent: 'zombie', resume: { session, key: 'k' } })).code).toBe(
      'SESSION_LOST',
    );
    expect(
      (await producer.call('queue.complete', { tasks: [{ task: theirs.task, fence: theirs.fence, result: 'B' }] }))
        .tasks,
    ).toEqual([{ state: 'completed' }]);
    expect(await producer.call('queue.result', { task: mine.task })).toEqual({ state: 'completed', result: 'B' });
    expect(story(watcher, queue).filter((line) => line.startsWith('task.completed'))).toHaveLength(1);
    agent.kill();
  });

  test('[4b] A12(b): black hole: all at the ttl, charged', async () => {
    const proxy = await link();
    const wire = await Wire.session(through(proxy), { ttlMs });
    const queue = await fill(producer, 1);
    await hold(wire, queue);
    const heardAt = Date.now();
    await wire.call('ping');
    proxy.blackHole();
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect(at(back) - heardAt).toBeLessThan(ttlMs + lateMs);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    await proxy.close();
  });

  test('[2i] A12(a): a client killed: the kernel closes its socket without a close frame, the grace runs', async () => {
    const agent = await startRemote(daemon.url);
    await agent.wire.call('session.open', { agent: 'killed', ttlMs: 20_000 });
    const queue = await fill(producer, 1);
    await hold(agent.wire, queue);
    const killedAt = Date.now();
    agent.kill();
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - killedAt).toBeGreaterThanOrEqual(graceMs - 5);
    expect(at(back) - killedAt).toBeLessThan(graceMs + lateMs);
  });
});
