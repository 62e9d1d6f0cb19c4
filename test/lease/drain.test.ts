import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startDaemon, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { startProxy } from '../support/proxy.js';
import { startRemote } from '../support/remote.js';
import type { Any, Wire } from '../support/wire.js';
import { at, eventsOf, fill, get, hold, refs, sessionEvent, story, watch } from './support.js';

/** Row 5 of the ownership table: a daemon that is told to stop. */
let world: World;
let stays: TestDaemon;
let watcher: Wire;
let producer: Wire;
beforeAll(async () => {
  world = await startWorld({
    'session.ttlMinMs': 300,
    'session.graceMs': 300,
    'gateway.drainMs': 150,
    'session.receiptMs': 30_000,
  });
  stays = world.daemon;
  watcher = await watch(stays);
  producer = await stays.session({ agent: 'producer', ttlMs: 60_000 });
});
afterAll(() => world.stop());

/** SIGTERM to the process alone: the sockets are the daemon's to close. */
const terminate = (daemon: TestDaemon): Promise<number | null> =>
  new Promise((resolve) => {
    daemon.process.once('exit', (code) => resolve(code));
    daemon.process.kill('SIGTERM');
  });

describe.concurrent('a drain', () => {
  test('[5a] A15: pushes that were not received go back at once, refunded; what was received stays', async () => {
    const daemon = await world.another();
    const agent = await startRemote(daemon.url);
    const opened = await agent.wire.call('session.open', { agent: 'drained', ttlMs: 20_000 });
    const [running] = await hold(agent.wire, await fill(producer, 1));
    const queue = await fill(producer, 0);
    await agent.wire.call('queue.work', { queue, credit: 3, worker: 'w' });
    agent.freeze(); // the bytes of the pushes wait in its kernel
    await producer.call('queue.enqueue', {
      queue,
      tasks: Array.from({ length: 3 }, (_, i) => ({ payload: i, task: `${queue}.${i}` })),
    });
    await eventsOf(watcher, 'task.claimed', queue, 3);
    const toldAt = Date.now();
    const exit = terminate(daemon);
    const back = await eventsOf(watcher, 'task.released', queue, 3);
    expect(at(back[2]) - toldAt).toBeLessThan(5000);
    for (const { event } of back) expect(event.data).toMatchObject({ reason: 'drained', attempt: 1, state: 'ready' });
    expect(await exit).toBe(0);
    expect(await get(producer, running.task)).toMatchObject({ state: 'active', attempt: 1 });
    expect((await hold(producer, queue)).map(({ attempt, fence }: Any) => [attempt, fence > 0])).toEqual(
      Array(3).fill([1, true]),
    );
    expect((await get(producer, `${queue}.0`)).refunds).toBe(1);
    agent.thaw();
    const resumed = await stays.wire();
    const { holdings, lastClose } = await resumed.call('session.open', {
      agent: 'x',
      resume: { session: opened.session, key: opened.key },
    });
    expect(holdings.map(({ name }: Any) => name)).toEqual([running.task]);
    expect(lastClose).toMatchObject({ code: 1012 });
    resumed.cut();
    agent.kill();
  });

  test('[5b] A15: running tasks, sessions and workers go on on another daemon, under the same fence; exit code 0', async () => {
    const daemon = await world.another();
    const queue = await fill(producer, 4);
    const wires = await Promise.all([0, 1, 2, 3].map((i) => daemon.session({ agent: `a${i}`, ttlMs: 20_000 })));
    await Promise.all(wires.map((wire) => wire.call('queue.work', { queue, credit: 1, worker: 'w' })));
    await Promise.all(wires.map((wire) => wire.tasksUntil(1)));
    await Promise.all(wires.map((wire) => wire.call('ping'))); // the pongs of the pushes were ahead of this
    const exit = terminate(daemon);
    for (const wire of wires) {
      expect((await wire.until(() => wire.closed)).code).toBe(1012);
      const [drain, closed] = [wire.lines.find(({ op }) => op === 'drain'), wire.lines.at(-1)];
      expect(drain).toEqual({ op: 'drain', afterMs: expect.any(Number) });
      expect(closed).toEqual({ op: 'closed', code: 1012, reason: 'drain', afterMs: expect.any(Number) });
      expect(closed.afterMs).toBeLessThanOrEqual(1000);
    }
    expect(await exit).toBe(0);
    for (const wire of wires) {
      const [task] = wire.tasks();
      const back = await stays.wire();
      const { holdings } = await back.call('session.open', {
        agent: 'x',
        resume: { session: wire.opened.session, key: wire.opened.key },
      });
      expect(holdings).toMatchObject([{ name: task.task, fence: task.fence, state: 'held' }]);
      await back.call('queue.work', { queue, credit: 1, worker: 'w' });
      expect((await back.call('queue.complete', { tasks: refs([task]) })).tasks).toEqual([{ state: 'completed' }]);
      await back.close();
    }
    await eventsOf(watcher, 'task.completed', queue, 4);
    expect(story(watcher, queue).filter((line) => /retried|released/.test(line))).toEqual([]);
  });

  test('[5c] drained and never back: all at the ttl, charged; no grace was started', async () => {
    const daemon = await world.another();
    const ttlMs = 2500; // many times the grace
    const wire = await daemon.session({ ttlMs });
    const queue = await fill(producer, 1);
    await hold(wire, queue);
    const heardAt = Date.now();
    await wire.call('ping');
    expect(await terminate(daemon)).toBe(0);
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    await sessionEvent(watcher, 'session.lost', wire.opened.session);
  });

  test('[5d] from the first moment nobody is given work: idle workers and waiting claims get nothing more', async () => {
    const daemon = await world.another({ 'gateway.drainMs': 600 });
    const queue = await fill(producer, 0);
    const wires = await Promise.all(Array.from({ length: 6 }, () => daemon.session({ ttlMs: 20_000 })));
    const claims = wires
      .slice(0, 3)
      .map((wire) => wire.call('queue.claim', { queue, waitMs: 20_000 }).catch((error: Error) => error.message));
    await Promise.all(wires.slice(3).map((wire) => wire.call('queue.work', { queue, credit: 5, worker: 'w' })));
    await Promise.all(wires.map((wire) => wire.call('ping'))); // all have asked, and found nothing
    const exit = terminate(daemon);
    await Promise.all(wires.map((wire) => wire.next(({ op }) => op === 'drain')));
    await producer.call('queue.enqueue', {
      queue,
      tasks: Array.from({ length: 5 }, (_, i) => ({ payload: i, task: `${queue}.${i}` })),
    });
    expect(await exit).toBe(0);
    for (const wire of wires) expect(wire.tasks()).toEqual([]);
    expect((await Promise.all(claims)).every((answer) => /closed \(1012/.test(String(answer)))).toBe(true);
    const given = await hold(producer, queue);
    expect(given.map(({ attempt }: Any) => attempt)).toEqual([1, 1, 1, 1, 1]);
    expect(story(watcher, queue).filter((line) => /released|retried/.test(line))).toEqual([]);
  });

  test('[5d] a claim that does not wait is answered, asked before the drain or while it lasts', async () => {
    const proxy = await startProxy(world.redis.path);
    const daemon = await startDaemon(`redis://127.0.0.1:${proxy.port}`, { 'gateway.drainMs': 20_000 });
    const queue = await fill(producer, 0);
    const wires = [await daemon.session({ ttlMs: 60_000 }), await daemon.session({ ttlMs: 60_000 })];
    proxy.delay(300);
    // More than one script asks for: when the drain begins, some have not been asked for yet.
    const claims = wires.map((wire) =>
      Promise.all(Array.from({ length: 200 }, () => wire.call('queue.claim', { queue }).catch(() => undefined))),
    );
    daemon.process.kill('SIGTERM');
    const turns = await Promise.all(wires.map((wire) => wire.next(({ op }) => op === 'drain')));
    const last = turns[0].afterMs > turns[1].afterMs ? 0 : 1;
    const stays = wires[last]!;
    // Its turn comes in ten seconds: an answer that came with it would be none.
    const askedAt = performance.now();
    expect(await stays.call('queue.claim', { queue })).toEqual({ tasks: [] });
    expect(await stays.call('queue.claim', { queue, waitMs: 500 })).toEqual({ tasks: [] });
    for (const answer of (await claims[last]) ?? []) expect(answer).toEqual({ tasks: [] });
    expect(performance.now() - askedAt).toBeLessThan(5000);
    expect(stays.closed).toBeUndefined();
    await daemon.kill();
    await proxy.close();
  });

  test('a drain answers what was asked before, is not held up by a frozen client, and lets nobody in', async () => {
    const daemon = await world.another({ 'gateway.drainMs': 800 });
    const frozen = await startRemote(daemon.url);
    await frozen.wire.call('session.open', { agent: 'frozen' });
    const wire = await daemon.session({ ttlMs: 20_000 });
    frozen.freeze();
    const exit = terminate(daemon);
    await wire.next(({ op }) => op === 'drain');
    const queue = await fill(wire, 1).catch(() => undefined); // its turn may have come
    if (queue) expect(await get(producer, `${queue}.0`)).toMatchObject({ state: 'ready' });
    await expect(daemon.wire()).rejects.toThrow(/503|ECONNREFUSED|hang up/);
    expect(await exit).toBe(0);
    frozen.kill();
  });
});
