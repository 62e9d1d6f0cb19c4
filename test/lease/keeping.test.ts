import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import { type Any, Wire } from '../support/wire.js';
import { at, eventsOf, fill, hold, sessionEvent, unique, watch } from './support.js';

/** How a session is kept: what counts, from when, and what does not. */
let world: World;
let daemon: TestDaemon;
let watcher: Wire;
beforeAll(async () => {
  world = await startWorld({ 'session.ttlMinMs': 300, 'session.graceMs': 60_000 });
  daemon = world.daemon;
  watcher = await watch(daemon);
});
afterAll(() => world.stop());

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** A client that answers no ping: only what the test sends is a sign of life. */
async function mute(ttlMs: number): Promise<Wire & { opened: { session: string } }> {
  const socket = new WebSocket(daemon.url, 'signalbox.v1', { autoPong: false });
  const wire = Object.assign(new Wire(socket), { opened: { session: '' } });
  await wire.next((line) => line.op === 'hello');
  wire.opened = await wire.call('session.open', { agent: unique('mute'), ttlMs });
  return wire;
}

describe.concurrent('a session', () => {
  test('R3: lives as long as only pongs come, by a client that is driven by hand', async () => {
    const wire = await daemon.session({ ttlMs: 2000 });
    const [task] = await hold(wire, await fill(wire, 1));
    await wait(5000);
    expect(wire.lines.some(({ op }) => op === 'lost')).toBe(false);
    expect((await wire.call('queue.complete', { tasks: [{ task: task.task, fence: task.fence }] })).tasks).toEqual([
      { state: 'completed' },
    ]);
  });

  test.each([
    ['no answer at all', []],
    ['a frame in the middle', [1000]],
    ['a frame late in it', [2200]],
    ['frames all the time', [250, 500, 750, 1000, 1250, 1500, 1750, 2000]],
  ])('is never given away earlier than its ttl after the last frame: %s', async (_, moments) => {
    const ttlMs = 3000;
    const wire = await mute(ttlMs);
    let heardAt = Date.now();
    const queue = await fill(wire, 1);
    await hold(wire, queue);
    const startedAt = Date.now();
    for (const ms of moments) {
      await wait(startedAt + ms - Date.now());
      heardAt = Date.now();
      // Refused by the schema, so that nothing but the frame itself can have counted.
      expect((await wire.refused('queue.claim', {})).code).toBe('BAD_REQUEST');
    }
    const lost = await sessionEvent(watcher, 'session.lost', wire.opened.session);
    expect(at(lost) - heardAt).toBeGreaterThanOrEqual(ttlMs);
    expect(at(lost) - heardAt).toBeLessThan(ttlMs + 3000);
    const [back] = await eventsOf(watcher, 'task.retried', queue);
    expect(back.offset).toBeGreaterThan(lost.offset);
    wire.cut();
  });

  test('counts from the last frame also when the socket goes at once after it', async () => {
    const wire = await mute(2000);
    await wait(1000);
    const heardAt = Date.now();
    await wire.refused('queue.claim', {});
    wire.cut();
    const lost = await sessionEvent(watcher, 'session.lost', wire.opened.session);
    expect(at(lost) - heardAt).toBeGreaterThanOrEqual(2000);
  });

  test("is renewed in Redis by ping before the answer, and serverAt is Redis' clock", async () => {
    const wire = await mute(30_000);
    const deadline = async (): Promise<number> =>
      Number(await world.redis.client().zscore('sb:{default}:sessions', wire.opened.session));
    const before = await deadline();
    await wait(50);
    const sentAt = Date.now();
    const { serverAt, epoch } = await wire.call('ping');
    expect(await deadline()).toBeGreaterThan(before);
    const skew = Number(await world.redis.client().hget('sb:{default}:meta', 'skew'));
    expect((await deadline()) + skew - sentAt).toBeGreaterThanOrEqual(30_000);
    expect(Date.parse(serverAt)).toBeGreaterThanOrEqual(sentAt);
    expect(epoch).toBe(wire.opened ? await world.redis.client().hget('sb:{default}:meta', 'epoch') : '');
    wire.cut();
  });

  test('ping refuses what it does not know, and keeps data as it came', async () => {
    const wire = await daemon.wire();
    expect(await wire.refused('ping', { namespace: 'x' })).toMatchObject({ code: 'BAD_REQUEST', path: 'namespace' });
    expect(await wire.refused('ping', { date: 1 })).toMatchObject({ code: 'BAD_REQUEST', path: 'date' });
    for (const data of [null, 0, '', [], { deep: [1.5e300, 'ü"\\'] }])
      expect((await wire.call('ping', { data })).data).toEqual(data);
    expect(await wire.call('ping')).toEqual({ serverAt: expect.any(String), epoch: expect.stringMatching(/^\w+$/) });
  });
});

describe.concurrent('the lease clock', () => {
  test('[4e] a jump of the clock, or an outage, does not end everybody', async () => {
    const other = await startWorld({ 'session.ttlMinMs': 300 });
    const { daemon: own, redis } = other;
    const wires = await Promise.all(Array.from({ length: 10 }, () => own.session({ ttlMs: 2000 })));
    const queue = await fill(wires[0]!, 1, { leaseMs: 60_000 });
    await hold(wires[0]!, queue);
    const viewer = await watch(own);
    // Redis' clock cannot be turned here, but everything that was written by it: the same as a jump of the clock itself.
    const jump = async (ms: number): Promise<void> => {
      const keys = ['sessions', 'leases'].map((key) => `sb:{default}:${key}`);
      const shift = `redis.call('HINCRBY', 'sb:{default}:meta', 'seen', ARGV[1])
        for _, key in ipairs(KEYS) do
          for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, ARGV[1], member) end
        end`;
      await redis.client().eval(shift, 2, ...keys, -ms);
    };
    await jump(60_000);
    const jumped = await viewer.event('clock.jumped');
    expect(jumped.event.data.byMs).toBeGreaterThanOrEqual(60_000);
    await jump(-20_000);
    await viewer.until(() => viewer.events().filter(({ event }) => event.type === 'clock.jumped').length === 2);
    await wait(300);
    expect(viewer.events().filter(({ event }) => event.type === 'session.lost')).toEqual([]);
    for (const wire of wires) await wire.call('ping');
    const { leases } = await wires[0]!.call('lease.list', { session: wires[0]!.opened.session });
    const left = leases.map(({ endsAt }: { endsAt: string }) => Date.parse(endsAt) - Date.now());
    expect(left[0]).toBeGreaterThan(0);
    expect(left[0]).toBeLessThanOrEqual(2000);
    expect(left[1]).toBeGreaterThan(30_000);
    expect(left[1]).toBeLessThanOrEqual(60_000);
    // And leases go on running out, on the clock as it is now.
    const heardAt = Date.now();
    for (const wire of wires) wire.cut();
    const lost = await sessionEvent(viewer, 'session.lost', wires[9]!.opened.session);
    expect(at(lost) - heardAt).toBeLessThan(6000);
    await other.stop();
  });

  test('[4e] everything frozen for longer than the ttl: daemon and clients stood still together, nobody is lost', async () => {
    const other = await startWorld({ 'session.ttlMinMs': 300 });
    const wire = await other.daemon.session({ ttlMs: 3000 });
    const queue = await fill(wire, 1);
    const [task] = await hold(wire, queue);
    other.daemon.process.kill('SIGSTOP');
    await wait(6000);
    other.daemon.process.kill('SIGCONT');
    // The link to Redis has been silent for as long too, and may be made anew first.
    const complete = () => wire.call('queue.complete', { tasks: [{ task: task.task, fence: task.fence }] });
    let done: Any;
    await until(async () => {
      done = await complete().catch(() => undefined);
      return done;
    });
    expect(done.tasks).toEqual([{ state: 'completed' }]);
    expect(wire.lines.some(({ op }) => op === 'lost')).toBe(false);
    await other.stop();
  });

  test('[4g] Redis restarted with its data: sessions and what they hold live on', async () => {
    const other = await startWorld({}, ['--appendonly', 'yes', '--appendfsync', 'always']);
    const wire = await other.daemon.session({ ttlMs: 30_000 });
    const queue = await fill(wire, 1);
    const [task] = await hold(wire, queue);
    const { epoch } = await wire.call('ping');
    await other.redis.restart();
    await until(async () => (await wire.call('ping').catch(() => ({ epoch }))).epoch !== epoch, 20_000);
    expect((await wire.call('queue.complete', { tasks: [{ task: task.task, fence: task.fence }] })).tasks).toEqual([
      { state: 'completed' },
    ]);
    await other.stop();
  });

  test('[4h] FLUSHALL: everybody is lost and told so', async () => {
    const other = await startWorld({ 'session.ttlMinMs': 300 });
    const wire = await other.daemon.session({ ttlMs: 900 });
    await other.redis.client().flushall();
    expect(await wire.next((line) => line.op === 'lost')).toMatchObject({ kind: 'session', reason: 'expired' });
    expect(await wire.call('session.open', { agent: 'b' })).toMatchObject({ resumed: false });
    // The namespace is in use again, for daemons that start now.
    expect(await other.redis.client().zrange('sb:namespaces', '0', '-1')).toEqual(['default']);
    await other.stop();
  });
});
