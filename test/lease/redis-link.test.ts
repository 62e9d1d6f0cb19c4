import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startDaemon, type TestDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { type Any, Wire } from '../support/wire.js';
import { at, eventsOf, fill, get, hold, refs, sessionEvent, story, unique, watch } from './support.js';

/** The link between daemon and Redis hurt, one test after the other: `near` goes through the proxy, `far` straight. */
const commandTimeoutMs = 500;
let redis: TestRedis;
let proxy: FaultProxy;
let near: TestDaemon;
let far: TestDaemon;
let watcher: Wire;
beforeAll(async () => {
  redis = await startRedis();
  proxy = await startProxy(redis.path);
  const settings = {
    'session.ttlMinMs': 300,
    'session.graceMs': 400,
    'redis.commandTimeoutMs': commandTimeoutMs,
    'ops.logLevel': 'error',
  };
  [near, far] = await Promise.all([
    startDaemon(`redis://127.0.0.1:${proxy.port}`, settings),
    startDaemon(redis.path, settings),
  ]);
  watcher = await watch(far);
});
afterAll(async () => {
  proxy.heal();
  await Promise.all([near.stop(), far.stop()]);
  await proxy.close();
  await redis.stop();
});

// One test's trouble must not become the next one's.
afterEach(() => proxy.heal());

/** Until the daemon has found back to Redis. */
const recovered = (wire: Wire): Promise<void> => until(async () => !!(await wire.call('ping').catch(() => undefined)));
const away = ['UNAVAILABLE', 'TIMEOUT'];

describe('while Redis cannot be reached', () => {
  test('a ping of a session is not answered as if it had been heard: UNAVAILABLE at once when the link is down', async () => {
    const wire = await near.session({ ttlMs: 20_000 });
    proxy.refuse();
    proxy.cut();
    await until(async () => (await wire.refused('ping').catch(() => undefined))?.code === 'UNAVAILABLE');
    const askedAt = performance.now();
    expect(await wire.refused('ping')).toMatchObject({ code: 'UNAVAILABLE', retry: true });
    expect(performance.now() - askedAt).toBeLessThan(commandTimeoutMs);
    const other = await near.wire();
    expect(away).toContain((await other.refused('session.open', { agent: 'a' })).code);
    expect(away).toContain((await wire.refused('lease.renew', { leases: [{ lease: 'task:t', fence: 1 }] })).code);
    proxy.heal();
    await recovered(wire);
    expect(wire.lines.some(({ op }) => op === 'lost')).toBe(false);
    wire.cut();
  });

  test('TIMEOUT when the link breaks in place of the answer: what has no name of its own may have happened', async () => {
    const wire = await near.session({ ttlMs: 20_000 });
    const marker = unique('marker');
    const gone = proxy.swallowReply(marker);
    const refused = await wire.refused('feed.publish', { events: [{ type: 'note.made', data: { marker } }] });
    await gone;
    expect(refused).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('may have happened') });
    await recovered(wire);
    const { events } = await wire.call('feed.read', { from: 'all', types: ['note.made'], limit: 1000 });
    expect(events.filter(({ event }: Any) => event.data.marker === marker)).toHaveLength(1);
    wire.cut();
  });

  test('TIMEOUT within the command timeout when the link is silent', async () => {
    const wire = await near.session({ ttlMs: 20_000 });
    proxy.stall('down');
    const askedAt = performance.now();
    expect(away).toContain((await wire.refused('ping')).code);
    expect(performance.now() - askedAt).toBeLessThan(commandTimeoutMs + 1500);
    proxy.heal();
    await recovered(wire);
    wire.cut();
  });

  test('[2g] a socket that breaks while Redis is away: the grace is told as soon as it is back', async () => {
    const wire = await near.session({ ttlMs: 30_000 });
    const queue = await fill(await far.session(), 1);
    await hold(wire, queue);
    proxy.refuse();
    proxy.cut();
    wire.cut();
    await new Promise((resolve) => setTimeout(resolve, 700));
    proxy.heal();
    const [back] = await eventsOf(watcher, 'task.retried', queue, 1, 15_000);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
  });

  test('[6d] a resume whose socket goes while Redis is asked: the grace of the socket before it runs on', async () => {
    const wire = await near.session({ ttlMs: 60_000 });
    const queue = await fill(await far.session(), 1);
    await hold(wire, queue);
    wire.cut();
    const { session, key } = wire.opened;
    const hasty = await near.wire();
    proxy.delay(200); // the answer of Redis comes to a daemon whose socket has gone
    hasty.call('session.open', { agent: 'x', resume: { session, key } }).catch(() => undefined);
    setTimeout(() => hasty.cut(), 100);
    await sessionEvent(watcher, 'session.resumed', session);
    const [back] = await eventsOf(watcher, 'task.retried', queue, 1, 15_000);
    proxy.delay(0);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    // The session itself lives on, and its agent may still come back.
    const third = await far.wire();
    expect(await third.call('session.open', { agent: 'x', resume: { session, key } })).toMatchObject({
      resumed: true,
      holdings: [],
    });
    third.cut();
  });

  test('[6e] a resume that is carried out, but whose reply is lost: work goes back a grace later, as after a break', async () => {
    const wire = await near.session({ ttlMs: 60_000 });
    const queue = await fill(await far.session(), 1);
    await hold(wire, queue);
    wire.cut();
    const { session, key } = wire.opened;
    const hasty = await near.wire();
    const lost = proxy.swallowReply(session);
    const resume = { session, key };
    expect(away).toContain((await hasty.refused('session.open', { agent: 'x', resume })).code);
    await lost;
    hasty.cut();
    const [back] = await eventsOf(watcher, 'task.retried', queue, 1, 15_000);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    const third = await far.wire();
    expect(await third.call('session.open', { agent: 'x', resume })).toMatchObject({ resumed: true, holdings: [] });
    third.cut();
  });

  test('[1c] a clean close while Redis is away: the session is ended as soon as it is back', async () => {
    const wire = await near.session({ ttlMs: 30_000 });
    proxy.refuse();
    proxy.cut();
    await wire.close();
    await new Promise((resolve) => setTimeout(resolve, 300));
    proxy.heal();
    expect((await sessionEvent(watcher, 'session.closed', wire.opened.session, 15_000)).event.data.reason).toBe(
      'closed',
    );
  });

  test('[4f] one daemon cut off beyond the ttl: the other ends its sessions; back again, they are told `lost`', async () => {
    const wire = await near.session({ ttlMs: 1500 });
    const queue = await fill(await far.session(), 1);
    const [task] = await hold(wire, queue);
    proxy.blackHole();
    proxy.refuse();
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(back.event.data).toMatchObject({ reason: 'sessionLost', attempt: 1 });
    proxy.heal();
    proxy.cut();
    await wire.next((line) => line.op === 'lost', 20_000);
    // The log may be back before the link that commands take.
    const complete = () =>
      wire.call('queue.complete', { tasks: refs([task]) }).catch(({ code }) => away.includes(code));
    let done: Any = true;
    await until(async () => {
      done = await complete();
      return done !== true;
    });
    expect(done.tasks[0].error.code).toBe('STALE_FENCE');
    wire.cut();
  });
});

describe('Q3: the reply is lost, not the request', () => {
  const swallowed = async <T>(
    marker: string,
    run: () => Promise<T>,
  ): Promise<{ answer: T | undefined; code: string }> => {
    const gone = proxy.swallowReply(marker);
    const askedAt = performance.now();
    const [outcome] = await Promise.allSettled([run(), gone]);
    expect(performance.now() - askedAt).toBeLessThan(commandTimeoutMs + 2500);
    if (outcome.status === 'fulfilled') return { answer: outcome.value, code: 'ok' };
    return { answer: undefined, code: (outcome.reason as Any).error?.code ?? 'none' };
  };

  test('of an enqueue: the caller hears that it may have happened, asks again under its key, and there is one task', async () => {
    const wire = await near.session({ ttlMs: 30_000 });
    const queue = unique('lost');
    const params = { queue, tasks: [{ payload: 'SWALLOW-ENQUEUE', key: 'k', task: `${queue}.0` }] };
    const { code } = await swallowed('SWALLOW-ENQUEUE', () => wire.call('queue.enqueue', params));
    expect(away).toContain(code);
    await recovered(wire);
    expect((await wire.call('queue.enqueue', params)).tasks).toEqual([
      { task: `${queue}.0`, state: 'ready', deduplicated: true },
    ]);
    expect(story(watcher, queue)).toEqual(['task.enqueued']);
    wire.cut();
  });

  test('of a claim: what it took is found and given back, and one credit never gets two tasks', async () => {
    const wire = await near.session({ ttlMs: 30_000 });
    const producer = await far.session();
    const queue = await fill(producer, 0);
    await wire.call('queue.work', { queue, credit: 1, worker: 'SWALLOW-WORKER' });
    const gone = proxy.swallowReply('SWALLOW-WORKER');
    await producer.call('queue.enqueue', { queue, tasks: [0, 1].map((i) => ({ payload: i, task: `${queue}.${i}` })) });
    await gone;
    await recovered(wire);
    const [task] = await wire.tasksUntil(1, 15_000);
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(wire.tasks()).toHaveLength(1);
    const stats = (await producer.call('queue.stats', { queue })).queues[0];
    expect(stats.states).toMatchObject({ active: 1, ready: 1 });
    expect((await wire.call('queue.complete', { tasks: refs([task]) })).tasks).toEqual([{ state: 'completed' }]);
    const tasks = await wire.tasksUntil(2, 15_000);
    expect((await wire.call('queue.complete', { tasks: refs(tasks.slice(1)) })).tasks).toEqual([
      { state: 'completed' },
    ]);
    await eventsOf(watcher, 'task.completed', queue, 2);
    expect(story(watcher, queue).filter((line) => line.startsWith('task.completed'))).toHaveLength(2);
    wire.cut();
  });

  test('of a complete: repeated under its fence it answers as the first did, and completed once', async () => {
    const wire = await near.session({ ttlMs: 30_000 });
    const queue = await fill(await far.session(), 1);
    const [task] = await hold(wire, queue);
    const params = { tasks: [{ ...refs([task])[0], result: 'SWALLOW-RESULT' }] };
    const { code } = await swallowed('SWALLOW-RESULT', () => wire.call('queue.complete', params));
    expect(away).toContain(code);
    await recovered(wire);
    expect((await wire.call('queue.complete', params)).tasks).toEqual([{ state: 'completed' }]);
    expect(await get(wire, task.task)).toMatchObject({ state: 'completed', result: 'SWALLOW-RESULT', attempt: 1 });
    await eventsOf(watcher, 'task.completed', queue);
    expect(story(watcher, queue).filter((line) => line.startsWith('task.completed'))).toHaveLength(1);
    wire.cut();
  });

  test('of a renewal: refused although it counted; the session lives on', async () => {
    const wire = await near.session({ ttlMs: 30_000 });
    const { code } = await swallowed(wire.opened.session, () => wire.call('ping'));
    expect(away).toContain(code);
    await recovered(wire);
    wire.cut();
  });

  test('of an open: a session nobody knows ends by its ttl; of a resume: it can be repeated', async () => {
    const agent = unique('SWALLOW-AGENT');
    const wire = await near.wire();
    const { code } = await swallowed(agent, () => wire.call('session.open', { agent, ttlMs: 800 }));
    expect(away).toContain(code);
    const opened = await watcher.next(
      (line) => line.op === 'event' && line.event.type === 'session.opened' && line.event.data.agent === agent,
    );
    await until(
      async () => !!(await wire.call('session.open', { agent: 'again', ttlMs: 30_000 }).catch(() => undefined)),
    );
    const lost = await sessionEvent(watcher, 'session.lost', opened.event.subject);
    expect(at(lost) - at(opened)).toBeGreaterThanOrEqual(800);
    const holder = await near.session({ ttlMs: 30_000 });
    const { session, key } = holder.opened;
    holder.cut();
    const back = await near.wire();
    const asked = await swallowed(session, () => back.call('session.open', { agent: 'x', resume: { session, key } }));
    expect([...away, 'ok']).toContain(asked.code);
    const third = await Wire.open(far.url);
    expect((await third.call('session.open', { agent: 'x', resume: { session, key } })).resumed).toBe(true);
    third.cut();
  });
});
