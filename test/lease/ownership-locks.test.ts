import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startDaemon, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRemote } from '../support/remote.js';
import { type Any, Wire } from '../support/wire.js';
import { at, unique, watch } from './support.js';

/** The column "locks, permits" of the ownership table (ARCHITECTURE.md). */
const graceMs = 500;
const ttlMs = 1800;
/** Late is a matter of the machine; that nothing is early is not. */
const lateMs = 3000;
const settings = { 'session.ttlMinMs': 300, 'session.graceMs': graceMs };
let world: World;
let daemon: TestDaemon;
let watcher: Wire;
let waiter: Wire;
const ends: (() => Promise<unknown> | unknown)[] = [];
beforeAll(async () => {
  world = await startWorld(settings);
  daemon = world.daemon;
  watcher = await watch(daemon, ['lock.>', 'session.>']);
  waiter = await daemon.session({ agent: 'waiter', ttlMs: 60_000 });
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
  await world.stop();
});

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const portOf = ({ url }: TestDaemon): number => Number(new URL(url).port);
const through = ({ port }: FaultProxy): string => `ws://127.0.0.1:${port}/v1/ws`;
async function link(to: TestDaemon = daemon): Promise<FaultProxy> {
  const proxy = await startProxy(portOf(to));
  ends.push(() => proxy.close());
  return proxy;
}
async function another(): Promise<TestDaemon> {
  const one = await world.another();
  ends.push(() => one.process.kill('SIGCONT'));
  return one;
}
/** A daemon whose link to Redis can fail. */
async function behind(): Promise<{ daemon: TestDaemon; link: FaultProxy }> {
  const proxy = await startProxy(world.redis.path);
  const one = await startDaemon(`redis://127.0.0.1:${proxy.port}`, settings);
  ends.push(async () => {
    await one.kill();
    await proxy.close();
  });
  return { daemon: one, link: proxy };
}

interface Held {
  /** A lock that stays with the session, and one that goes with its socket. */
  readonly stays: string;
  readonly goes: string;
  readonly wire: Any;
  /** Not later than the last frame of the holder was counted; it is answered. */
  readonly heardAt: number;
}

/** Takes both, lets somebody wait for both, and says a last word. */
async function take(wire: Any, more: Any = {}): Promise<Held> {
  const [stays, goes] = [unique('stays'), unique('goes')];
  await wire.call('lock.acquire', { name: stays, ...more });
  await wire.call('lock.acquire', { name: goes, onDisconnect: 'release', ...more });
  for (const name of [stays, goes]) await waiter.call('lock.acquire', { name, waitMs: 60_000 });
  const heardAt = Date.now();
  await wire.call('ping');
  return { stays, goes, wire, heardAt };
}

/** When somebody else was given it, by the log. */
async function givenAt(name: string): Promise<number> {
  const line = await watcher.next(
    ({ op, event }) =>
      op === 'event' && event.type === 'lock.granted' && event.data.lock === name && event.data.agent === 'waiter',
    20_000,
  );
  return at(line);
}

async function given(name: string, from: number, afterMs: number): Promise<void> {
  const ms = (await givenAt(name)) - from;
  expect(ms, `${name} after`).toBeGreaterThanOrEqual(afterMs - 5);
  expect(ms, `${name} after`).toBeLessThan(afterMs + lateMs);
}

const notGiven = (...names: string[]): void => {
  const found = watcher
    .events()
    .filter(({ event }) => event.type === 'lock.granted' && names.includes(event.data.lock))
    .filter(({ event }) => event.data.agent === 'waiter');
  expect(found).toEqual([]);
};
const lostWhy = async (name: string, type = 'lock.lost'): Promise<string> => {
  const line = await watcher.next(
    ({ op, event }) => op === 'event' && event.type === type && event.data.lock === name,
    20_000,
  );
  return line.event.data.reason;
};
const resume = async (to: TestDaemon, { wire }: Held): Promise<Wire> => {
  const { session, key } = wire.opened;
  return to.session({ resume: { session, key } });
};
const holder = (url = daemon.url, ttl = ttlMs): Promise<Wire & { opened: Any }> =>
  Wire.session(url, { agent: 'holder', ttlMs: ttl });

describe.concurrent('the ownership table: locks', () => {
  test('[1a] [1b] the client said good-bye: both at once', async () => {
    for (const how of ['close', 'session.close']) {
      const held = await take(await holder(daemon.url, 60_000));
      const from = Date.now();
      if (how === 'close') held.wire.socket.close(1000);
      else await held.wire.call('session.close');
      await given(held.stays, from, 0);
      await given(held.goes, from, 0);
      expect(await lostWhy(held.stays, 'lock.released')).toBe('closed');
    }
  });

  test('[1c] good-bye while Redis is away: as soon as it is back', async () => {
    const { daemon: cut, link: toRedis } = await behind();
    const held = await take(await holder(cut.url, 60_000));
    toRedis.refuse();
    toRedis.cut();
    held.wire.socket.close(1000);
    await held.wire.until(() => held.wire.closed);
    await sleep(graceMs);
    notGiven(held.stays, held.goes);
    const from = Date.now();
    toRedis.heal();
    await given(held.stays, from, 0);
    await given(held.goes, from, 0);
  });

  test.each(['cut', 'reset', 'code', 'killed'])(
    '[2a] [2h] [2i] A12(a) socket broken (%s): with the socket after the grace, else ttl after the last frame',
    async (how) => {
      const proxy = await link();
      const remote = how === 'killed' ? await startRemote(daemon.url) : undefined;
      if (remote) await remote.wire.call('session.open', { agent: 'holder', ttlMs });
      const held = await take(remote?.wire ?? (await holder(through(proxy))));
      const from = Date.now();
      if (how === 'cut') proxy.cut();
      else if (how === 'reset') proxy.reset();
      else if (how === 'code') held.wire.socket.close(4000, 'crash');
      else remote!.kill();
      await given(held.goes, from, graceMs);
      await given(held.stays, held.heardAt, ttlMs);
      expect(await lostWhy(held.goes)).toBe('disconnected');
      expect(await lostWhy(held.stays)).toBe('sessionLost');
    },
  );

  test('[2b] a ttl shorter than the grace: both at the ttl', async () => {
    const held = await take(await holder(daemon.url, 400));
    held.wire.cut();
    await given(held.goes, held.heardAt, 400);
    await given(held.stays, held.heardAt, 400);
  });

  test('[2c] link half cut, agent to daemon: ttl after the last frame that came through', async () => {
    const proxy = await link();
    const held = await take(await holder(through(proxy)));
    proxy.stall('up');
    await given(held.stays, held.heardAt, ttlMs);
  });

  test('[2d] link half cut, daemon to agent: nothing moves while frames come, then ttl after the last', async () => {
    const proxy = await link();
    const held = await take(await holder(through(proxy)));
    proxy.stall('down');
    let last = 0;
    for (const until = Date.now() + 1.5 * ttlMs; Date.now() < until; await sleep(100)) {
      last = Date.now();
      held.wire.call('ping').catch(() => undefined);
    }
    notGiven(held.stays, held.goes);
    await given(held.stays, last, ttlMs);
  });

  test('[2g] socket broken while Redis is away: not before it is back, and not before their time', async () => {
    const { daemon: cut, link: toRedis } = await behind();
    const held = await take(await holder(cut.url));
    const from = Date.now();
    toRedis.refuse();
    toRedis.cut();
    held.wire.cut();
    await sleep(graceMs / 2);
    toRedis.heal();
    await given(held.goes, from, graceMs);
    await given(held.stays, held.heardAt, ttlMs);
  });

  test.each(['frozen', 'unplugged'])('[4a] [4b] A12(b) %s: both at the ttl after the last frame', async (how) => {
    const proxy = await link();
    const remote = how === 'frozen' ? await startRemote(daemon.url) : undefined;
    if (remote) await remote.wire.call('session.open', { agent: 'holder', ttlMs });
    const held = await take(remote?.wire ?? (await holder(through(proxy))));
    if (remote) remote.freeze();
    else proxy.blackHole();
    // A daemon may give a silent socket up before, which starts the grace of what goes with it: not sooner than its pings say.
    await given(held.stays, held.heardAt, ttlMs);
    expect((await givenAt(held.goes)) - held.heardAt).toBeGreaterThanOrEqual(graceMs);
    remote?.kill();
  });

  test.each(['killed', 'frozen', 'cut off'])(
    '[4c] [4d] [4f] a daemon %s: another ends its sessions at their ttl, and gives nothing of theirs before',
    async (how) => {
      const { daemon: ill, link: toRedis } =
        how === 'cut off' ? await behind() : { daemon: await another(), link: undefined };
      const held = await take(await holder(ill.url));
      if (how === 'killed') await ill.kill();
      else if (how === 'frozen') ill.process.kill('SIGSTOP');
      else toRedis!.blackHole();
      await given(held.stays, held.heardAt, ttlMs);
      await given(held.goes, held.heardAt, ttlMs);
      if (how === 'frozen') {
        ill.process.kill('SIGCONT');
        expect(await held.wire.next((line: Any) => line.op === 'lost')).toMatchObject({ kind: 'session' });
      }
    },
  );

  test('[5b] [6a] [6b] [6c] A12(d) a daemon drained, killed, or a socket cut, and resumed in time: nothing moves', async () => {
    const ways: [TestDaemon, TestDaemon, (on: TestDaemon, held: Held) => unknown][] = [
      [await another(), daemon, (on) => on.stop()],
      [await another(), daemon, (on) => on.kill()],
      [daemon, daemon, (_, held) => held.wire.cut()],
      [daemon, await another(), (_, held) => held.wire.cut()],
    ];
    const backs: Wire[] = [];
    const names: string[] = [];
    for (const [from, to, end] of ways) {
      const held = await take(await holder(from.url, 20_000));
      await end(from, held);
      const back = (await resume(to, held)) as Wire & { opened: Any };
      const states = back.opened.holdings.map(({ name, state }: Any) => [name, state]);
      expect(states).toEqual(expect.arrayContaining([held.stays, held.goes].map((name) => [name, 'held'])));
      backs.push(back);
      names.push(held.stays, held.goes);
    }
    await sleep(2 * graceMs);
    notGiven(...names);
    for (const back of backs) await back.call('session.close');
  });

  test('[5c] a daemon drained and never resumed: ttl after the last frame, no grace', async () => {
    const drains = await another();
    const held = await take(await holder(drains.url));
    await drains.stop();
    await given(held.goes, held.heardAt, ttlMs);
    await given(held.stays, held.heardAt, ttlMs);
  });

  test('[7a] [7b] replaced by a newer socket of its session: nothing moves', async () => {
    const names: string[] = [];
    const backs: Wire[] = [];
    for (const to of [daemon, await another()]) {
      const held = await take(await holder(daemon.url, 20_000));
      backs.push(await resume(to, held));
      expect((await held.wire.until(() => held.wire.closed)).code).toBe(4409);
      names.push(held.stays, held.goes);
    }
    await sleep(2 * graceMs);
    notGiven(...names);
    for (const back of backs) await back.call('session.close');
  });

  test('[8] a session revoked: at once, after the delay of the lock', async () => {
    const held = await take(await holder(daemon.url, 60_000));
    await waiter.call('lock.define', { name: held.stays, lockDelayMs: 600 });
    const from = Date.now();
    await waiter.call('lease.revoke', { lease: `session:${held.wire.opened.session}`, reason: 'out' });
    await given(held.goes, from, 0);
    await given(held.stays, from, 600);
    await waiter.call('lock.define', { name: held.stays, change: true });
  });

  test('[10] a lease of its own that runs out while the session lives: at its end', async () => {
    const held = await take(await holder(daemon.url, 60_000), { leaseMs: 700 });
    const from = held.heardAt;
    expect((await givenAt(held.stays)) - from).toBeGreaterThanOrEqual(0);
    const granted = await watcher.next(({ event }) => event?.type === 'lock.granted' && event.data.lock === held.stays);
    await given(held.stays, at(granted), 700);
    expect(await lostWhy(held.goes)).toBe('leaseLapsed');
    held.wire.cut();
  });
});
