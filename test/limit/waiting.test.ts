import { describe, expect, test } from 'vitest';
import { until } from '../support/until.js';
import {
  type Any,
  fresh,
  granted,
  limitEvent,
  limitOf,
  pushesOf,
  queueUp,
  refused,
  reserve,
  settle,
  usage,
  useWorld,
  type Wire,
  waitEnded,
  watcherOf,
} from './support.js';

const { daemon, current } = useWorld({ 'limit.waitersMax': 300 });
const minute = 60_000;
const slots = { concurrency: { amount: 1 } };
const one = { concurrency: 1 };

describe('a wait', () => {
  // The story: an ask that was fairly first and fitted was granted by the pump that its own wait brought about. The log told
  // the grant first and the wait behind it, and whoever read it saw it wait for ever.
  test('is told before the grant that ends it, when both come in one step', async () => {
    const [many, few, watcher] = await Promise.all([
      daemon().session(),
      daemon().session({ agent: 'few' }),
      watcherOf(daemon()),
    ]);
    const name = await limitOf(many, 'window', { concurrency: { amount: 4 } });
    const held = await reserve(many, name, { concurrency: 2 });
    const first = await queueUp(many, name, { concurrency: 4 });
    const second = await queueUp(many, name, { concurrency: 4 });
    // What is left stands behind an agent that has asked for nothing yet.
    await settle(many, first);
    const got = await reserve(few, name, one, { waitMs: minute });
    expect(got.state).toBe('granted');
    const later = await queueUp(few, name, { concurrency: 2 });
    await settle(few, got);
    await settle(many, held);
    // The reply has ended the first wait: only that of the later one is ended by a push.
    await granted(few, later);
    expect(pushesOf(few, got)).toEqual([]);
    await settle(few, later);
    await granted(many, second);
    await settle(many, second);
    const told = await watcher.until(() => {
      const events = watcher.events().filter(({ event }) => event.data.reservation === got.reservation);
      return events.length === 2 && events;
    });
    expect(told.map(({ event }: Any) => event.type)).toEqual(['limit.waiting', 'limit.granted']);
    expect(told[0].event.data.place).toBe(1);
  });

  test('ends with the settle that makes room, in the same step, by a push', async () => {
    const [holder, waiter] = await Promise.all([daemon().session(), daemon().session()]);
    const name = await limitOf(holder, 'window', slots);
    const held = await reserve(holder, name, one);
    const waits = await queueUp(waiter, name, one);
    expect(waits.place).toBe(1);
    await settle(holder, held);
    const push = await granted(waiter, waits);
    expect(push).toMatchObject({ name, validMs: 15_000 });
    expect(push.fence).toBeGreaterThan(held.fence);
    expect((await usage(holder, name)).concurrency.reserved).toBe(1);
    expect(await reserve(waiter, name, one, { reservation: waits.reservation })).toMatchObject({ fence: push.fence });
    await settle(waiter, waits);
  });

  test('ends with a refill, as soon as it is there', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'bucket', { tokens: { amount: 100, perMs: 1000, burst: 100 } });
    const first = await reserve(wire, name, { tokens: 100 });
    const waits = await queueUp(wire, name, { tokens: 30 });
    const push = await granted(wire, waits);
    const afterMs = (push.fence - first.fence) / 1000;
    expect(afterMs).toBeGreaterThanOrEqual(298);
    expect(afterMs).toBeLessThan(1500);
  });

  test('in a strict window ends when enough has grown too old', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', { tokens: { amount: 100, perMs: 400 } });
    const first = await reserve(wire, name, { tokens: 100 });
    const push = await granted(wire, await queueUp(wire, name, { tokens: 30 }));
    expect((push.fence - first.fence) / 1000).toBeGreaterThan(400);
  });

  test('[L19] ends exactly once, however close the timeout and the grant come', async () => {
    const [holder, waiter] = await Promise.all([daemon().session(), daemon().session()]);
    const name = await limitOf(holder, 'window', slots);
    const ends = { granted: 0, timeout: 0 };
    for (let i = 0; i < 40; i++) {
      const held = await reserve(holder, name, one);
      const waits = await queueUp(waiter, name, one, { waitMs: 20 });
      await new Promise((resolve) => setTimeout(resolve, 18 + (i % 5)));
      await settle(holder, held);
      const push = await waiter.next(
        (line) => ['granted', 'waitEnded'].includes(line.op) && line.reservation === waits.reservation,
      );
      ends[push.op === 'granted' ? 'granted' : 'timeout']++;
      if (push.op === 'granted') await settle(waiter, waits);
      expect(pushesOf(waiter, waits)).toHaveLength(1);
    }
    expect(ends.granted + ends.timeout).toBe(40);
    expect((await usage(holder, name)).concurrency).toMatchObject({ reserved: 0, remaining: 1 });
  });

  test('is cancelled by a settle, and whoever is behind it moves up', async () => {
    const [holder, first, second] = await Promise.all([daemon().session(), daemon().session(), daemon().session()]);
    const name = await limitOf(holder, 'window', { concurrency: { amount: 2 } });
    const held = await reserve(holder, name, one);
    const large = await queueUp(first, name, { concurrency: 2 });
    const small = await queueUp(second, name, one);
    expect(small.place).toBe(2);
    expect((await refused(holder, name, one)).code).toBe('LIMITED');
    await settle(first, large);
    expect(await waitEnded(first, large)).toMatchObject({ reason: 'cancelled' });
    await granted(second, small);
    await settle(second, small);
    await settle(holder, held);
  });

  test('times out; its place is free and its agent is not behind for it', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', slots);
    const held = await reserve(wire, name, one);
    const waits = await queueUp(wire, name, one, { waitMs: 50 });
    expect(await waitEnded(wire, waits)).toMatchObject({ reason: 'timeout' });
    expect((await wire.call('limit.get', { name })).waiting).toBe(0);
    await settle(wire, held);
  });

  test('ends neverFits when the limit is made smaller than the ask, and blocks nobody', async () => {
    const [holder, large, small] = await Promise.all([daemon().session(), daemon().session(), daemon().session()]);
    const name = await limitOf(holder, 'window', { concurrency: { amount: 4 } });
    const held = await reserve(holder, name, { concurrency: 4 });
    const waits = await queueUp(large, name, { concurrency: 4 });
    const behind = await queueUp(small, name, { concurrency: 2 });
    await holder.call('limit.define', {
      name,
      kind: 'window',
      dimensions: { concurrency: { amount: 2 } },
      change: true,
    });
    expect(await waitEnded(large, waits)).toMatchObject({ reason: 'neverFits' });
    await settle(holder, held);
    await granted(small, behind);
    await settle(small, behind);
  });

  test('ends with the session: closed by its client, lost by its ttl', async () => {
    const [holder, closing, dying, last] = await Promise.all([
      daemon().session(),
      daemon().session(),
      daemon().session({ ttlMs: 300 }),
      daemon().session(),
    ]);
    const watcher = await watcherOf(daemon());
    const name = await limitOf(holder, 'window', slots);
    const held = await reserve(holder, name, one);
    const [a, b] = [await queueUp(closing, name, one), await queueUp(dying, name, one)];
    const c = await queueUp(last, name, one);
    await closing.call('session.close', {});
    dying.cut();
    const reasonOf = async ({ reservation }: Any): Promise<string> =>
      (
        await watcher.next(
          (line) => line.event?.type === 'limit.waitEnded' && line.event.data.reservation === reservation,
        )
      ).event.data.reason;
    expect(await reasonOf(a)).toBe('cancelled');
    expect(await reasonOf(b)).toBe('sessionLost');
    await settle(holder, held);
    await granted(last, c);
    await settle(last, c);
  });

  test('outlives its socket: a resume shows it, and a grant meanwhile', async () => {
    const [holder, waiter] = await Promise.all([daemon().session(), daemon().session({ ttlMs: 20_000 })]);
    const name = await limitOf(holder, 'window', { concurrency: { amount: 1 }, n: { amount: 10, perMs: minute } });
    const held = await reserve(holder, name, one);
    const waits = await queueUp(waiter, name, one);
    waiter.cut();
    const { session, key } = waiter.opened;
    const again = await daemon().wire();
    const opened = await again.call('session.open', { agent: 'agent', resume: { session, key } });
    expect(opened.holdings).toMatchObject([{ lease: `reservation:${waits.reservation}`, name, state: 'waiting' }]);
    await settle(holder, held);
    const push = await granted(again, waits);
    const shown = await again.call('lease.list', { session, kind: 'reservation' });
    expect(shown.leases).toMatchObject([{ lease: `reservation:${waits.reservation}`, name, fence: push.fence }]);
    await settle(again, waits);
  });

  test('[L18] whose session has no socket is passed over, keeps its place, and has it again when it is back', async () => {
    const [holder, gone, next, last] = await Promise.all([
      daemon().session({ agent: 'holder' }),
      daemon().session({ agent: 'gone', ttlMs: 20_000 }),
      daemon().session({ agent: 'next' }),
      daemon().session({ agent: 'last' }),
    ]);
    const name = await limitOf(holder, 'window', slots);
    const held = await reserve(holder, name, one);
    const a = await queueUp(gone, name, one);
    const b = await queueUp(next, name, one);
    const c = await queueUp(last, name, one);
    const watcher = await watcherOf(daemon(), ['session.>']);
    gone.cut();
    const client = current().redis.client();
    await until(() => client.hexists(`sb:{default}:session:${gone.opened.session}`, 'away'));
    client.disconnect();
    await settle(holder, held);
    await granted(next, b);
    const again = await daemon().wire();
    const { session, key } = gone.opened;
    const opened = await again.call('session.open', { agent: 'gone', resume: { session, key } });
    expect(opened.holdings).toMatchObject([{ lease: `reservation:${a.reservation}`, state: 'waiting' }]);
    // It stands ahead of the last one again.
    await until(async () => (await again.call('limit.get', { name })).waiting === 2);
    await settle(next, b);
    await granted(again, a);
    expect(pushesOf(last, c)).toEqual([]);
    await settle(again, a);
    await granted(last, c);
    await settle(last, c);
    expect(watcher.events().some(({ event }) => event.type === 'session.resumed')).toBe(true);
  });

  // The story: when the queue ran empty beside it, shares were counted anew from nothing, and the place that had been kept
  // was far behind everybody who came after.
  test('[L18] whose session has no socket keeps its place even if everybody else has been served meanwhile', async () => {
    const [holder, gone, next] = await Promise.all([
      daemon().session({ agent: 'holder' }),
      daemon().session({ agent: 'gone', ttlMs: 20_000 }),
      daemon().session({ agent: 'next' }),
    ]);
    const name = await limitOf(holder, 'window', slots);
    let held = await reserve(holder, name, one);
    // Its place is far from the beginning: the queue has not been empty for a while.
    const before = [];
    for (let i = 0; i < 20; i++) before.push(await queueUp(holder, name, one));
    for (const each of before.slice(0, 10)) {
      await settle(holder, held);
      await granted(holder, each);
      held = each;
    }
    const a = await queueUp(gone, name, one);
    gone.cut();
    const client = current().redis.client();
    await until(() => client.hexists(`sb:{default}:session:${gone.opened.session}`, 'away'));
    client.disconnect();
    for (const each of before.slice(10)) {
      await settle(holder, held);
      await granted(holder, each);
      held = each;
    }
    const later = [];
    for (let i = 0; i < 5; i++) later.push(await queueUp(next, name, one));
    const again = await daemon().wire();
    const { session, key } = gone.opened;
    await again.call('session.open', { agent: 'gone', resume: { session, key } });
    await until(async () => (await again.call('limit.get', { name })).waiting === 6);
    await settle(holder, held);
    await granted(again, a);
    for (const each of later) expect(pushesOf(next, each)).toEqual([]);
    await settle(again, a);
    for (const each of later) await granted(next, each).then(() => settle(next, each));
  });

  test('[L18] behind two hundred dead the living one is served as soon as their time is over', async () => {
    const world = current();
    const holder = await world.daemon.session();
    const name = await limitOf(holder, 'window', slots);
    const held = await reserve(holder, name, one);
    const dead = await Promise.all(Array.from({ length: 200 }, () => world.daemon.session({ ttlMs: 1000 })));
    await Promise.all(dead.map((wire) => queueUp(wire, name, one)));
    const living = await world.daemon.session();
    const waits = await queueUp(living, name, one);
    for (const wire of dead) wire.cut();
    await settle(holder, held);
    await granted(living, waits, 8000);
    await settle(living, waits);
  });
});

describe('the queue', () => {
  test('[A2] of 58, 80, 175, 175, 175 against 100 tokens: 58 now, 80 when it fits, each 175 refused at once', async () => {
    const wires = await Promise.all(Array.from({ length: 5 }, () => daemon().session()));
    const name = await limitOf(wires[0]!, 'window', { tokens: { amount: 100, perMs: 600 } });
    const asks = [58, 80, 175, 175, 175];
    const replies = await Promise.all(
      wires.map((wire, i) => reserve(wire, name, { tokens: asks[i] }, { waitMs: 10_000 }).catch((error) => error)),
    );
    expect(replies.map((reply: Any) => reply.state ?? reply.code)).toEqual([
      'granted',
      'waiting',
      'NEVER_FITS',
      'NEVER_FITS',
      'NEVER_FITS',
    ]);
    const push = await granted(wires[1]!, replies[1]);
    expect((push.fence - replies[0].fence) / 1000).toBeGreaterThan(600);
  });

  test('[A1] agents that wait are served in turn: nobody is more than two grants ahead of another', async () => {
    const limit = 20;
    // By two daemons: the limit is one, however many processes there are.
    const daemons = [daemon(), await current().another()];
    const agents = await Promise.all(
      Array.from({ length: 5 }, (_, i) => daemons[i % 2]!.session({ agent: `fair-${i}`, ttlMs: 60_000 })),
    );
    const watcher = await watcherOf(daemon());
    const name = await limitOf(agents[0]!, 'window', { requests: { amount: limit, perMs: 300 } });
    // The window is used up first, so that all of them wait: what is free at once goes to whoever comes.
    await reserve(agents[0]!, name, { requests: limit });
    for (const wire of agents)
      await Promise.all(Array.from({ length: 20 }, () => queueUp(wire, name, { requests: 1 })));
    const served = await watcher.until(() => {
      const events = watcher
        .events()
        .filter(({ event }) => event.type === 'limit.granted' && event.data.limit === name);
      return events.length === 100 && events;
    }, 15_000);
    const count = new Map(agents.map((_, i) => [`fair-${i}`, 0]));
    for (const { event } of served as Any[]) {
      count.set(event.data.agent, count.get(event.data.agent)! + 1);
      expect(Math.max(...count.values()) - Math.min(...count.values())).toBeLessThanOrEqual(2);
    }
    const times = (served as Any[]).map(({ event }) => event.data.fence / 1000);
    for (let i = limit; i < times.length; i++) expect(times[i]! - times[i - limit]!).toBeGreaterThan(300);
  });

  test('a newcomer is not behind the hundred asks of another; twice the weight is twice the share', async () => {
    const [hog, heavy, light] = await Promise.all(
      ['hog', 'heavy', 'light'].map((agent) => daemon().session({ agent: `${agent}-${process.pid}`, ttlMs: 60_000 })),
    );
    const name = await limitOf(hog!, 'window', slots);
    let held: Any = await reserve(hog!, name, one);
    let holder: Wire = hog!;
    const waits: { who: string; wire: Wire; reply: Any }[] = [];
    const ask = async (who: string, wire: Wire, weight: number): Promise<void> => {
      waits.push({ who, wire, reply: await queueUp(wire, name, one, { weight }) });
    };
    for (let i = 0; i < 30; i++) await ask('hog', hog!, 1);
    for (let i = 0; i < 12; i++) await ask('heavy', heavy!, 2);
    for (let i = 0; i < 6; i++) await ask('light', light!, 1);
    const order: string[] = [];
    while (order.length < 24) {
      await settle(holder, held);
      const next = await Promise.race(
        waits.map(async (wait) => {
          await granted(wait.wire, wait.reply, 20_000);
          return wait;
        }),
      );
      waits.splice(waits.indexOf(next), 1);
      order.push(next.who);
      [held, holder] = [next.reply, next.wire];
    }
    await settle(holder, held);
    expect(order.indexOf('light')).toBeLessThan(4);
    const share = (who: string): number => order.filter((each) => each === who).length;
    expect(share('heavy')).toBeGreaterThanOrEqual(11);
    expect(share('light')).toBeGreaterThanOrEqual(5);
    for (const wire of [hog!, heavy!, light!]) await wire.call('session.close', {});
  });

  test('an ask is never passed by: a large one is not starved by small ones', async () => {
    const [holder, large, small] = await Promise.all([daemon().session(), daemon().session(), daemon().session()]);
    const name = await limitOf(holder, 'window', { concurrency: { amount: 2 } });
    const [a, b] = [await reserve(holder, name, one), await reserve(holder, name, one)];
    const waits = await queueUp(large, name, { concurrency: 2 });
    await settle(holder, a);
    expect((await refused(small, name, one)).code).toBe('LIMITED');
    await settle(holder, b);
    await granted(large, waits);
    await settle(large, waits);
  });

  test('[A25] is bounded: who comes beyond it is refused, and those in it keep their places', async () => {
    const wire = await daemon().session({ ttlMs: 60_000 });
    const name = await limitOf(wire, 'window', slots);
    const held = await reserve(wire, name, one);
    const waits = await Promise.all(Array.from({ length: 300 }, () => queueUp(wire, name, one)));
    expect(await refused(wire, name, one, { waitMs: 60_000 })).toMatchObject({
      code: 'LIMITED',
      details: { waiting: 300 },
    });
    await settle(wire, held);
    const [first] = waits;
    await granted(wire, first);
    expect((await queueUp(wire, name, one)).place).toBe(300);
    await wire.call('session.close', {});
  });

  test('tells of the wait, the grant and of being full, once each; a grant at once tells nothing', async () => {
    const wire = await daemon().session({ agent: 'teller' });
    const watcher = await watcherOf(daemon());
    const name = await limitOf(wire, 'window', slots);
    const held = await reserve(wire, name, one);
    const waits = await queueUp(wire, name, one);
    await settle(wire, held);
    await granted(wire, waits);
    await settle(wire, waits);
    await limitEvent(watcher, 'limit.recovered', name);
    const types = watcher
      .events()
      .filter(({ event }) => event.data.limit === name && event.type !== 'limit.gauge')
      .map(({ event }) => event.type.slice(6));
    expect(types).toEqual(['defined', 'saturated', 'waiting', 'granted', 'recovered']);
    const gauge = await watcher.next(
      (line) =>
        line.event?.type === 'limit.gauge' &&
        line.event.data.limit === name &&
        line.event.data.dimensions.concurrency.reserved === 0,
    );
    expect(gauge.event.data).toMatchObject({ waiting: 0, dimensions: { concurrency: { amount: 1, used: 0 } } });
  });
});

describe('who does not settle', () => {
  test('[L26] [A3] has spent it when its lease is over, and its concurrency is free; a late settle changes nothing', async () => {
    const wire = await daemon().session();
    const dimensions = { tokens: { amount: 100, perMs: minute }, concurrency: { amount: 1 } };
    const name = await limitOf(wire, 'window', dimensions);
    const held = await reserve(wire, name, { tokens: 60, concurrency: 1 }, { leaseMs: 100 });
    expect(held.validMs).toBe(100);
    const waits = await queueUp(wire, name, one);
    await granted(wire, waits);
    expect(await wire.next((line) => line.op === 'lost' && line.reservation === held.reservation)).toMatchObject({
      kind: 'reservation',
      name,
      fence: held.fence,
      reason: 'leaseLapsed',
    });
    expect((await wire.refused('limit.settle', { reservation: held.reservation, actual: { tokens: 1 } })).code).toBe(
      'NOT_FOUND',
    );
    expect((await usage(wire, name)).tokens).toEqual({ amount: 100, used: 60, reserved: 0, remaining: 40 });
    await settle(wire, waits);
  });

  test('keeps its lease by renewing it, under its own fence only', async () => {
    const wire = await daemon().session();
    const name = await limitOf(wire, 'window', slots);
    const { reservation, fence } = await reserve(wire, name, one, { leaseMs: 400 });
    const lease = `reservation:${reservation}`;
    const renew = async (item: Any): Promise<Any> => (await wire.call('lease.renew', { leases: [item] })).leases[0];
    const before = Date.now();
    const { endsAt } = await renew({ lease, fence, leaseMs: 30_000 });
    expect(Date.parse(endsAt) - before).toBeGreaterThan(29_000);
    expect((await renew({ lease, fence: fence - 1 })).error).toMatchObject({
      code: 'STALE_FENCE',
      details: { yours: fence - 1, current: fence },
    });
    expect((await renew({ lease: 'reservation:nobody', fence })).error.code).toBe('NOT_FOUND');
    const plain = await reserve(wire, await limitOf(wire, 'window', slots), one);
    const own = { lease: `reservation:${plain.reservation}`, fence: plain.fence };
    expect((await renew(own)).endsAt).toBeDefined();
    expect((await renew({ ...own, leaseMs: 5 })).error.code).toBe('INVALID');
    await settle(wire, { reservation });
    expect((await renew({ lease, fence })).error.code).toBe('STALE_FENCE');
  });

  test('[A4a] four clients that are killed leave four free slots within the grace', async () => {
    const wires = await Promise.all(Array.from({ length: 4 }, () => daemon().session({ ttlMs: 60_000 })));
    const watcher = await watcherOf(daemon());
    const name = await limitOf(wires[0]!, 'window', { concurrency: { amount: 4 }, n: { amount: 8, perMs: minute } });
    for (const wire of wires) await reserve(wire, name, { concurrency: 1, n: 1 });
    const next = await daemon().session();
    const waits = await queueUp(next, name, { concurrency: 4, n: 4 });
    for (const wire of wires) wire.cut();
    await granted(next, waits);
    const lost = await watcher.until(() => {
      const told = watcher.events().filter(({ event }) => event.type === 'limit.lost' && event.data.limit === name);
      return told.length === 4 && told;
    });
    expect(lost.map(({ event }) => event.data.reason)).toEqual(Array.from({ length: 4 }, () => 'disconnected'));
    expect((await usage(next, name)).n).toEqual({ amount: 8, used: 4, reserved: 4, remaining: 0 });
    await settle(next, waits);
  });

  test('an operator may revoke a reservation and end a wait', async () => {
    const [wire, operator] = await Promise.all([daemon().session(), daemon().session()]);
    const name = await limitOf(wire, 'window', slots);
    const held = await reserve(wire, name, one);
    const [first, second] = [await queueUp(wire, name, one), await queueUp(wire, name, one)];
    await operator.call('lease.revoke', { lease: `reservation:${first.reservation}`, reason: 'no' });
    expect(await waitEnded(wire, first)).toMatchObject({ reason: 'cancelled' });
    await operator.call('lease.revoke', { lease: `reservation:${held.reservation}`, reason: 'no' });
    expect(await wire.next((line) => line.op === 'lost' && line.kind === 'reservation')).toMatchObject({
      reason: 'revoked',
    });
    await granted(wire, second);
    await settle(wire, second);
    const gone = { lease: `reservation:${fresh()}`, reason: 'no' };
    expect((await operator.refused('lease.revoke', gone)).code).toBe('NOT_FOUND');
  });
});
