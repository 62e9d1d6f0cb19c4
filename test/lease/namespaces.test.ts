import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import { Wire } from '../support/wire.js';
import { fill, hold, unique } from './support.js';

let world: World;
beforeAll(async () => {
  world = await startWorld({ namespacesMax: 4 });
});
afterAll(() => world.stop());

const keysOf = (name: string): Promise<string[]> => world.redis.client().keys(`sb:{${name}}:*`);
const known = (): Promise<string[]> => world.redis.client().zrange('sb:namespaces', '0', '-1');

describe('a namespace', () => {
  test('that nobody opened is empty for every read, and not created by one', async () => {
    const reads = [
      ['lease.list', {}, { leases: [] }],
      ['queue.list', { queue: 'q', state: 'ready' }, { tasks: [] }],
      ['queue.stats', {}, { queues: [] }],
      ['feed.read', { from: 'all' }, { events: [] }],
      ['feed.read', { from: 'new' }, { events: [] }],
      ['feed.read', { from: { last: 5 } }, { events: [] }],
    ] as const;
    for (const [i, [op, params, expected]] of reads.entries()) {
      const wire = await world.daemon.wire();
      expect([op, await wire.call(op, { ...params, namespace: `unseen-${i}` })]).toMatchObject([op, expected]);
      wire.cut();
    }
    for (const op of ['queue.get', 'queue.result']) {
      const wire = await world.daemon.wire();
      expect(await wire.refused(op, { task: 't', namespace: 'unseen-x' })).toMatchObject({ code: 'NOT_FOUND' });
      wire.cut();
    }
    expect((await world.redis.client().keys('sb:{unseen*')).sort()).toEqual([]);
    expect(await known()).toEqual(['default']);
  });

  test('begins with the first session, is served by every daemon, and is a world of its own', async () => {
    const other = await world.another({ namespacesMax: 4 });
    const wire = await world.daemon.session({ namespace: 'blue' });
    const queue = await fill(wire, 1);
    expect(await known()).toContain('blue');
    const twin = await other.session({ namespace: 'blue' });
    const [task] = await hold(twin, queue);
    const stranger = await other.session();
    expect(await stranger.refused('queue.get', { task: task.task })).toMatchObject({ code: 'NOT_FOUND' });
    expect(await stranger.refused('lease.revoke', { lease: `task:${task.task}`, reason: '' })).toMatchObject({
      code: 'NOT_FOUND',
    });
    expect((await stranger.call('lease.list', { session: twin.opened.session })).leases).toEqual([]);
    // Named by a session, another one is refused.
    expect(await stranger.refused('queue.stats', { namespace: 'blue' })).toMatchObject({ code: 'FORBIDDEN' });
    const reader = await other.wire();
    await reader.call('queue.stats', { namespace: 'blue' });
    expect(await reader.refused('queue.stats', { namespace: 'default' })).toMatchObject({ code: 'CONFLICT' });
    await twin.close();
    const [again] = (await wire.call('queue.claim', { queue, waitMs: 5000 })).tasks;
    expect(again).toMatchObject({ task: task.task, attempt: 2 });
    expect(await other.stop()).toBe(0);
  });

  test('sessions of one that only the other daemon has used are swept here too', async () => {
    const dies = await world.another({ namespacesMax: 4 });
    const wire = await dies.session({ namespace: 'green', ttlMs: 1200 });
    const queue = await fill(wire, 1);
    await hold(wire, queue);
    await dies.kill();
    const reader = await world.daemon.wire();
    await until(
      async () => (await reader.call('queue.stats', { queue, namespace: 'green' })).queues[0]?.states.ready === 1,
    );
  });

  test('beyond namespacesMax is LIMIT, by session and by subscription, and leaves nothing; the connection may choose again', async () => {
    await world.daemon.session({ namespace: 'red' });
    expect((await known()).sort()).toEqual(['blue', 'default', 'green', 'red']);
    const wire = await world.daemon.wire();
    expect(await wire.refused('session.open', { agent: 'a', namespace: 'black' })).toMatchObject({
      code: 'LIMIT',
      details: { max: 4 },
    });
    const tail = await world.daemon.wire();
    expect(await tail.refused('feed.subscribe', { types: ['>'], namespace: 'white' })).toMatchObject({ code: 'LIMIT' });
    expect(await known()).toHaveLength(4);
    expect([...(await keysOf('black')), ...(await keysOf('white'))]).toEqual([]);
    expect(await wire.call('session.open', { agent: 'a', namespace: 'blue' })).toMatchObject({ resumed: false });
  });

  test('is not brought into being by a request that is refused, whatever for', async () => {
    const own = await startWorld({ 'gateway.token': 'a-token-of-the-test', namespacesMax: 3 });
    const { url } = own.daemon;
    const headers = { Authorization: 'Bearer a-token-of-the-test' };
    const resume = { session: 'nobody', key: 'k' };
    const refusals = [
      ['UNAUTHENTICATED', {}, 'session.open', { agent: 'a' }],
      ['UNAUTHENTICATED', {}, 'session.open', { agent: 'a', token: 'wrong' }],
      ['UNAUTHENTICATED', {}, 'session.open', { agent: 'a', resume }],
      ['UNAUTHENTICATED', {}, 'feed.subscribe', { types: ['>'] }],
      ['BAD_REQUEST', headers, 'session.open', { agent: 'a', ttlMs: 1 }],
      ['SESSION_LOST', headers, 'session.open', { agent: 'a', resume }],
      ['BAD_FILTER', headers, 'feed.subscribe', { types: ['a..b'] }],
      ['BAD_POSITION', headers, 'feed.subscribe', { types: ['>'], from: 'nowhere' }],
      ['BAD_POSITION', headers, 'feed.subscribe', { types: ['>'], from: 'nowhere', onGap: 'skip' }],
      ['POSITION_LOST', headers, 'feed.subscribe', { types: ['>'], from: 'unknown:7' }],
    ] as const;
    for (const [i, [code, given, op, params]] of refusals.entries()) {
      const wire = await Wire.open(url, { headers: given });
      expect([i, (await wire.refused(op, { ...params, namespace: `refused-${i}` })).code]).toEqual([i, code]);
      wire.cut();
    }
    expect(await own.redis.client().zrange('sb:namespaces', '0', '-1')).toEqual(['default']);
    expect(await own.redis.client().keys('sb:{refused*')).toEqual([]);
    // What is asked for rightly still finds its place, on the connection that was refused too.
    const wire = await Wire.open(url, { headers });
    expect((await wire.refused('session.open', { agent: 'a', namespace: 'one', ttlMs: 1 })).code).toBe('BAD_REQUEST');
    expect(await wire.call('session.open', { agent: 'a', namespace: 'two' })).toMatchObject({ resumed: false });
    const tail = await Wire.open(url, { headers });
    const skip = { types: ['>'], from: 'unknown:7', onGap: 'skip', namespace: 'three' };
    expect(await tail.call('feed.subscribe', skip)).toMatchObject({ subscription: expect.any(String) });
    expect((await own.redis.client().zrange('sb:namespaces', '0', '-1')).sort()).toEqual(['default', 'three', 'two']);
    wire.cut();
    tail.cut();
    await own.stop();
  });

  test('the last place goes to one of many who ask at once', async () => {
    await world.redis.client().zrem('sb:namespaces', 'red');
    const other = await world.another({ namespacesMax: 4 });
    await world.redis.client().zrem('sb:namespaces', 'red');
    const names = Array.from({ length: 6 }, () => unique('race'));
    const outcomes = await Promise.allSettled(
      names.map((namespace, i) => (i % 2 ? other : world.daemon).session({ namespace })),
    );
    const opened = outcomes.filter(({ status }) => status === 'fulfilled').length;
    expect(opened).toBeLessThanOrEqual(1);
    expect(await known()).toHaveLength(4);
  });

  test('stored in a newer format is refused, and the others are served all the same', async () => {
    const own = await startWorld();
    await own.redis.client().hset('sb:{future}:meta', 'format', 99);
    const wire = await own.daemon.wire();
    expect(await wire.refused('session.open', { agent: 'a', namespace: 'future' })).toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('format 99'),
    });
    const later = await own.daemon.session({ namespace: 'zoo' });
    const other = await own.another();
    const twin = await other.session({ namespace: 'zoo' });
    expect(later.opened.session).not.toBe(twin.opened.session);
    await own.stop();
  });
});
