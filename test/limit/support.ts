import { afterAll, beforeAll, expect } from 'vitest';
import { checkPage, Dump } from '../queue/at-rest.js';
import { type Settings, startWorld, type TestDaemon, type World } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';

export { randomOf } from '../queue/support.js';
export type { Any, TestDaemon, Wire, World };
export type Session = Wire & { opened: Any };

/** A Redis and a daemon for one test file; at its end what is counted must be what is there. */
export function useWorld(settings: Settings = {}): { current: () => World; daemon: () => TestDaemon } {
  let world: World | undefined;
  const current = (): World => {
    if (!world) throw new Error('the world has not started');
    return world;
  };
  beforeAll(async () => {
    world = await startWorld(settings);
  });
  afterAll(async () => {
    try {
      if (world) await checkAtRest(world);
    } finally {
      await world?.stop();
    }
  });
  return { current, daemon: () => current().daemon };
}

let names = 0;
/** A limit nobody else uses. */
export const fresh = (word = 'limit'): string => `${word}-${process.pid}-${++names}`;

/** Defines a limit of its own and answers its name. */
export async function limitOf(wire: Wire, kind: string, dimensions: Any, more: Any = {}): Promise<string> {
  const name = fresh(kind);
  await wire.call('limit.define', { name, kind, dimensions, ...more });
  return name;
}

export const reserve = (wire: Wire, name: string, cost: Any, more: Any = {}): Promise<Any> =>
  wire.call('limit.reserve', { name, cost, ...more });
export const settle = (wire: Wire, { reservation }: Any, actual?: Any): Promise<Any> =>
  wire.call('limit.settle', { reservation, ...(actual ? { actual } : {}) });
/** Waits for `name`; the answer must be that it waits. */
export async function queueUp(wire: Wire, name: string, cost: Any, more: Any = {}): Promise<Any> {
  const reply = await reserve(wire, name, cost, { waitMs: 60_000, ...more });
  expect(reply.state).toBe('waiting');
  return reply;
}
export const refused = (wire: Wire, name: string, cost: Any, more: Any = {}): Promise<Any> =>
  wire.refused('limit.reserve', { name, cost, ...more });
export const usage = async (wire: Wire, name: string): Promise<Any> => (await wire.call('limit.get', { name })).usage;

export const granted = (wire: Wire, { reservation }: Any, limitMs?: number): Promise<Any> =>
  wire.next((line) => line.op === 'granted' && line.reservation === reservation, limitMs);
export const waitEnded = (wire: Wire, { reservation }: Any, limitMs?: number): Promise<Any> =>
  wire.next((line) => line.op === 'waitEnded' && line.reservation === reservation, limitMs);
export const pushesOf = (wire: Wire, { reservation }: Any): Any[] =>
  wire.lines.filter((line) => (line.op === 'granted' || line.op === 'waitEnded') && line.reservation === reservation);

/** When it was granted, by Redis' clock in milliseconds: a fence is the microsecond of its grant, or just behind it. */
export const grantedAt = ({ fence }: Any): number => fence / 1000;

/** A connection that sees every event of limits from now on. */
export async function watcherOf(
  daemon: TestDaemon,
  types: string[] = ['limit.>', 'session.>', 'lease.>'],
): Promise<Wire> {
  const watcher = await daemon.wire();
  await watcher.call('feed.subscribe', { types });
  return watcher;
}
export const limitEvent = (watcher: Wire, type: string, name: string, from = 0, limitMs?: number): Promise<Any> =>
  watcher.next(
    (line) => line.op === 'event' && line.event.type === type && line.event.data.limit === name,
    limitMs,
    from,
  );

/** Everybody is sent away: then nothing may be reserved, held, waited for or due any more, and no key be left of it. */
export async function checkAtRest(world: World): Promise<void> {
  const last = await world.daemon.session();
  const client = world.redis.client();
  const at = 'sb:{default}:';
  const leftovers = async (): Promise<string[]> => {
    const wrong: string[] = [];
    for (const pattern of ['held:*', 'limitWaits:*', 'limitFair:*', 'limitDue'])
      for (const key of await client.keys(at + pattern)) wrong.push(key);
    for (const key of await client.keys(`${at}reservation:*`))
      if ((await client.pttl(key)) === -1) wrong.push(`${key} stays for ever`);
    let cursor: string | undefined;
    do {
      const page: Any = await last.call('limit.list', { limit: 200, ...(cursor ? { cursor } : {}) });
      for (const { name, waiting, usage } of page.limits) {
        if (waiting !== 0) wrong.push(`${name} counts ${waiting} waiting`);
        for (const [dimension, { reserved }] of Object.entries<Any>(usage))
          if (reserved !== 0) wrong.push(`${name} ${dimension} has ${reserved} reserved by nobody`);
      }
      cursor = page.cursor;
    } while (cursor);
    return wrong;
  };
  try {
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const page: Any = await last.call('lease.list', { kind: 'session', limit: 1000, ...(cursor ? { cursor } : {}) });
      for (const { lease, holder } of page.leases)
        if (holder.session !== last.opened.session)
          await last.call('lease.revoke', { lease, reason: 'over' }).catch(() => 0);
      cursor = page.cursor;
    }
    const until = Date.now() + 10_000;
    let wrong = await leftovers();
    while (wrong.length > 0 && Date.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      wrong = await leftovers();
    }
    expect(wrong).toEqual([]);
    checkPage(await Dump.of(world.redis));
  } finally {
    client.disconnect();
  }
}
