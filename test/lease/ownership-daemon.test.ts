import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startDaemon, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { startProxy } from '../support/proxy.js';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';
import { at, eventsOf, fill, get, hold, refs, sessionEvent, story, unique, watch } from './support.js';

/** The rows of the ownership table that need a second daemon, or the end of the first. */
const graceMs = 600;
const ttlMs = 2500;
const lateMs = 4000;
const receiptMs = 2000;
let world: World;
let stays: TestDaemon;
let watcher: Wire;
let producer: Wire;
beforeAll(async () => {
  world = await startWorld({ 'session.ttlMinMs': 300, 'session.graceMs': graceMs, 'session.receiptMs': receiptMs });
  stays = world.daemon;
  watcher = await watch(stays, ['session.>', 'task.>', 'daemon.>']);
  producer = await stays.session({ agent: 'producer', ttlMs: 60_000 });
});
afterAll(() => world.stop());

const resume = async (daemon: TestDaemon, { session, key }: Any): Promise<{ wire: Wire; opened: Any }> => {
  const wire = await daemon.wire();
  return { wire, opened: await wire.call('session.open', { agent: 'agent', resume: { session, key } }) };
};

describe.concurrent('the ownership table: daemons', () => {
  test('[4c] a daemon killed: nobody starts a grace; the other one ends its sessions at their ttl, charged', async () => {
    const dies = await world.another();
    const wires = await Promise.all(Array.from({ length: 5 }, () => dies.session({ ttlMs })));
    const queue = await fill(producer, 5);
    const held = (await Promise.all(wires.map((wire) => hold(wire, queue, { count: 1 })))).flat();
    expect(held).toHaveLength(5);
    const heardAt = Date.now();
    await Promise.all(wires.map((wire) => wire.call('ping')));
    await dies.kill();
    const back = await eventsOf(watcher, 'task.retried', queue, 5);
    for (const line of back) {
      expect(at(line) - heardAt).toBeGreaterThanOrEqual(ttlMs);
      expect(at(line) - heardAt).toBeLessThan(ttlMs + lateMs);
      expect(line.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1, state: 'ready' });
    }
    for (const wire of wires) await sessionEvent(watcher, 'session.lost', wire.opened.session);
  });

  test('[6c] A12(d) F4: a daemon killed and the session resumed on another in time: nothing moves, it completes under its fence', async () => {
    const dies = await world.another();
    const wire = await dies.session({ ttlMs: 20_000 });
    const queue = await fill(producer, 3);
    const tasks = await hold(wire, queue);
    await dies.kill();
    const { wire: back, opened } = await resume(stays, wire.opened);
    expect(opened.holdings.map(({ name, fence }: Any) => ({ task: name, fence }))).toEqual(refs(tasks));
    expect(opened.lastClose).toBeUndefined();
    expect((await back.call('queue.complete', { tasks: refs(tasks) })).tasks).toEqual(
      Array(3).fill({ state: 'completed' }),
    );
    await eventsOf(watcher, 'task.completed', queue, 3);
    expect(story(watcher, queue).filter((line) => /retried|released/.test(line))).toEqual([]);
    back.cut();
  });

  test('[6b] [7b] resumed on another daemon while the older socket is open: that one is closed with 4409, nothing moves', async () => {
    const other = await world.another();
    const wire = await other.session({ ttlMs: 20_000 });
    const queue = await fill(producer, 2);
    const tasks = await hold(wire, queue);
    const { wire: back, opened } = await resume(stays, wire.opened);
    expect(opened.holdings).toHaveLength(2);
    // The older daemon may hear of it later than its socket speaks: the scripts know at once.
    const late = wire.call('queue.complete', { tasks: refs(tasks) }).then(
      ({ tasks: [first] }) => first.error.code,
      () => 'closed',
    );
    const stolen = wire.call('queue.claim', { queue }).then(
      ({ tasks: given }) => given.length,
      () => 0,
    );
    expect((await wire.until(() => wire.closed)).code).toBe(4409);
    expect(['STALE_FENCE', 'closed']).toContain(await late);
    expect(await stolen).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, graceMs + 300)); // the end of the older socket starts no grace
    expect(await get(back, tasks[0].task)).toMatchObject({ state: 'active', fence: tasks[0].fence });
    expect((await back.call('queue.complete', { tasks: refs(tasks) })).tasks).toEqual(
      Array(2).fill({ state: 'completed' }),
    );
    back.cut();
  });

  test('[4d] a daemon frozen: the other one ends its sessions at their ttl; thawed, it tells them `lost`', async () => {
    const frozen = await world.another();
    const wire = await frozen.session({ ttlMs });
    const queue = await fill(producer, 1);
    const [task] = await hold(wire, queue);
    const heardAt = Date.now();
    await wire.call('ping');
    frozen.process.kill('SIGSTOP');
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(at(back) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect(at(back) - heardAt).toBeLessThan(ttlMs + lateMs);
    const pinged = wire.refused('ping');
    frozen.process.kill('SIGCONT');
    expect((await pinged).code).toBe('SESSION_LOST');
    expect(await wire.next((line) => line.op === 'lost')).toMatchObject({ kind: 'session', name: wire.opened.session });
    const done = await wire.call('queue.complete', { tasks: refs([task]) });
    expect(done.tasks[0].error.code).toBe('STALE_FENCE');
  });

  /**
   * A worker whose push waits in its daemon: it was claimed while its socket took everything, and the answer of Redis came
   * when it took nothing any more.
   */
  const waitingPush = async () => {
    const proxy = await startProxy(world.redis.path);
    const daemon = await startDaemon(`redis://127.0.0.1:${proxy.port}`, {
      'session.receiptMs': receiptMs,
      'sweep.everyMs': 30_000,
      'redis.commandTimeoutMs': 20_000,
      'gateway.outboxBytes': 128 * 1024 * 1024,
    });
    const [wire, other] = [await daemon.session({ ttlMs: 60_000 }), await daemon.session({ ttlMs: 60_000 })];
    const queue = await fill(producer, 0);
    await wire.call('queue.work', { queue, credit: 2, worker: 'w' });
    await other.call('ping'); // the worker has asked, and found nothing
    proxy.stall('down');
    wire.call('queue.enqueue', { queue, tasks: [{ payload: 1, task: `${queue}.0` }] }).catch(() => undefined);
    const [claimed] = await eventsOf(watcher, 'task.claimed', queue);
    wire.socket.pause();
    // Answers that need no Redis, more than the kernel takes: what is written now waits in the daemon.
    const params = { queue, ['x'.repeat(500)]: 1 }; // the answer names what it does not know
    for (let id = 1_000_000; id < 1_030_000; id += 50) {
      const lines = Array.from({ length: 50 }, (_, n) => ({ id: id + n, op: 'queue.claim', params }));
      wire.send(lines.map((line) => JSON.stringify(line)).join('\n'));
    }
    await until(() => wire.socket.bufferedAmount === 0);
    for (let i = 0; i < 3; i++) await other.refused('nothing');
    proxy.heal();
    await other.call('ping'); // answered behind the claim
    const stop = async (): Promise<void> => {
      await daemon.kill();
      await proxy.close();
    };
    return { wire, queue, claimedAt: at(claimed), cameAt: Date.now(), stop };
  };

  test('[3c] a push that never reached the socket goes back at once, refunded, when that ends', async () => {
    const { wire, queue, cameAt, stop } = await waitingPush();
    wire.cut();
    const [back] = await eventsOf(watcher, 'task.released', queue);
    expect(back.event.data).toMatchObject({ reason: 'undelivered', attempt: 1, state: 'ready' });
    expect(at(back) - cameAt).toBeLessThan(receiptMs / 2);
    expect((await hold(producer, queue))[0]).toMatchObject({ attempt: 1 });
    await stop();
  });

  test('[3d] a push that waits for a socket that is read no more goes back after receiptMs, and nothing else is claimed for it', async () => {
    const { wire, queue, claimedAt, stop } = await waitingPush();
    await producer.call('queue.enqueue', { queue, tasks: [{ payload: 1, task: `${queue}.1` }] });
    const [back] = await eventsOf(watcher, 'task.released', queue);
    expect(back.event.data).toMatchObject({ reason: 'undelivered', attempt: 1, state: 'ready' });
    expect(at(back) - claimedAt).toBeGreaterThanOrEqual(receiptMs);
    const given = await hold(producer, queue);
    expect(given.map(({ task, attempt }: Any) => [task, attempt])).toEqual([0, 1].map((i) => [`${queue}.${i}`, 1]));
    expect(await eventsOf(watcher, 'task.claimed', queue, 3)).toHaveLength(3);
    // When it reads again it finds the push, and behind it that the task is no longer its own.
    wire.socket.resume();
    const told = await wire.next(({ op }) => op === 'revoked', 20_000);
    expect(told.tasks).toMatchObject([{ task: `${queue}.0`, reason: 'undelivered' }]);
    expect(wire.tasks()).toHaveLength(1);
    await stop();
  });

  test('two daemons sweep at once: each ending, each give-back and each event once', async () => {
    const other = await world.another();
    const wires = await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? stays : other).session({ ttlMs })));
    const queue = await fill(producer, 100);
    await Promise.all(wires.map((wire) => hold(wire, queue, { count: 5 })));
    for (const wire of wires) wire.cut();
    await eventsOf(watcher, 'task.retried', queue, 100);
    for (const wire of wires) await sessionEvent(watcher, 'session.lost', wire.opened.session);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(story(watcher, queue).filter((line) => line.startsWith('task.retried'))).toHaveLength(100);
    const losses = watcher
      .events()
      .filter(({ event }) => event.type === 'session.lost')
      .map(({ event }) => event.subject);
    expect(new Set(losses).size).toBe(losses.length);
    expect((await hold(producer, queue)).every(({ attempt }: Any) => attempt === 2)).toBe(true);
    await producer.call('queue.purge', { queue });
  });

  test('a session with 500 tasks: they come back in pages, one event each with the reason, charged once', async () => {
    const wire = await stays.session({ ttlMs: 20_000, agent: 'big' });
    const queue = unique('big');
    for (let i = 0; i < 5; i++) {
      const tasks = Array.from({ length: 100 }, (_, n) => ({
        payload: n,
        task: `${queue}.${i}.${n}`,
        maxAttempts: 1 + (n % 2),
      }));
      await producer.call('queue.enqueue', { queue, tasks });
      await hold(wire, queue);
    }
    wire.cut();
    const back = await eventsOf(watcher, 'task.retried', queue, 250);
    const dead = await eventsOf(watcher, 'task.dead', queue, 250);
    expect(new Set([...back, ...dead].map(({ event }) => event.subject)).size).toBe(500);
    for (const { event } of [...back, ...dead]) {
      expect(event.data).toMatchObject({
        reason: 'sessionLost',
        session: wire.opened.session,
        agent: 'big',
        attempt: 1,
      });
    }
    await until(async () => (await world.redis.client().exists(`sb:{default}:held:${wire.opened.session}`)) === 0);
    const stats = (await producer.call('queue.stats', { queue })).queues[0];
    expect(stats.states).toMatchObject({ ready: 250, active: 0, dead: 250 });
    // In pages: no script gave back more than a hundred.
    const sizes = new Map<string, number>();
    for (const { event } of [...back, ...dead]) sizes.set(event.time, (sizes.get(event.time) ?? 0) + 1);
    expect(sizes.size).toBeGreaterThanOrEqual(3);
  });

  test('daemons tell that they come, that they stop, and of each other that they are silent', async () => {
    const joined = watcher.events().filter(({ event }) => event.type === 'daemon.joined').length;
    const passing = await world.another();
    await watcher.until(() => watcher.events().filter(({ event }) => event.type === 'daemon.joined').length > joined);
    expect(await passing.stop()).toBe(0);
    await watcher.until(() =>
      watcher.events().some(({ event }) => event.type === 'daemon.left' && event.data.reason === 'stopped'),
    );
    const silent = await world.redis.client().zadd('sb:{default}:daemons', 1, 'somebody');
    expect(silent).toBe(1);
    expect((await watcher.event('daemon.left', 'somebody')).event.data).toEqual({
      daemon: 'somebody',
      reason: 'silent',
    });
  });
});
