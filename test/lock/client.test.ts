import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ConnectOptions, connect, type Lock, type Signalbox, type TermNews } from '../../src/client/index.js';
import { BrokenLink } from '../client/link.js';
import { rejection, useRig } from '../client/rig.js';
import { Random } from '../simulation/random.js';
import { type Any, fresh, leftoversOf, startWorld, storyOf, type Wire, type World, watcherOf } from './support.js';

useRig();

let world: World;
let watcher: Wire;
const open: { close(): Promise<unknown> }[] = [];

beforeAll(async () => {
  world = await startWorld({ 'session.ttlMs': 1500 });
  watcher = await watcherOf(world.daemon);
});
afterAll(() => world.stop());
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function client(options: ConnectOptions = {}): Promise<Signalbox> {
  const sb = await connect({ url: world.daemon.url, agent: 'a1', backoff: { baseMs: 5, capMs: 50 }, ...options });
  open.push({ close: () => sb.close({ limitMs: 0 }) });
  return sb;
}

async function behind(options: ConnectOptions = {}): Promise<{ sb: Signalbox; link: BrokenLink }> {
  const link = await BrokenLink.to(world.daemon.url);
  open.push(link);
  return { sb: await client({ ...options, url: link.url }), link };
}

const gate = (): { opened: Promise<void>; open: () => void } => {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
};
const aborted = ({ signal }: Lock): Promise<Any> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    else signal.addEventListener('abort', () => resolve(signal.reason));
  });
const told = (type: string, name: string): Promise<Any> =>
  watcher.next(({ op, event }) => op === 'event' && event.type === type && event.data.lock === name);

test('a handler runs while the lock is held, and the next one after it, in turn', async () => {
  const [one, two] = [await client(), await client({ agent: 'a2' })];
  const name = fresh();
  const order: string[] = [];
  const first = one.lock(name, async ({ fence }) => {
    order.push('first begins');
    await told('lock.waiting', name);
    order.push('first ends');
    return fence;
  });
  await told('lock.granted', name);
  const second = two.lock(name, { reason: 'second' }, ({ fence }) => {
    order.push('second');
    return fence;
  });
  expect(await second).toBeGreaterThan(await first);
  expect(order).toEqual(['first begins', 'first ends', 'second']);
  expect(await leftoversOf(world, name)).toEqual([]);
});

test('the plain calls are there beside it', async () => {
  const sb = await client();
  const name = fresh();
  const held = await sb.lock.acquire({ name });
  expect((await sb.lock.get({ name })).holders).toHaveLength(1);
  expect(await sb.lock.release({ grant: held.grant })).toEqual({ state: 'released' });
});

test('leave: what was held stays with the session until its ttl, for whoever resumes it', async () => {
  const [sb, other] = [await client({ ttlMs: 60_000 }), await client({ agent: 'a2' })];
  const name = fresh();
  const { grant, fence } = (await sb.lock.acquire({ name })) as Any;
  const { identity } = sb;
  sb.leave();
  expect(await sb.closed).toMatchObject({ code: 1000, reason: 'left' });
  expect(await rejection(other.lock(name, { waitMs: 0 }, () => {}))).toMatchObject({ code: 'HELD' });
  const back = await client({ resume: identity! });
  expect(await back.lock.check({ name, fence })).toMatchObject({ valid: true });
  expect(await back.lock.release({ grant })).toEqual({ state: 'released' });
});

test('L6: what the handler throws is thrown, and the lock is given back', async () => {
  const sb = await client();
  const name = fresh();
  expect(await rejection(sb.lock(name, () => Promise.reject(new Error('mine'))))).toMatchObject({ message: 'mine' });
  expect(await leftoversOf(world, name)).toEqual([]);
});

// The story: whoever had lost a lock with its session gave it back under the next one, and the log said that somebody had
// reached for what is another's.
test('what was lost with its session is not given back by the next one', async () => {
  const [sb, operator] = [await client(), await client({ agent: 'a2' })];
  const [name, next] = [fresh(), fresh()];
  let grant = '';
  const ran = sb.lock(name, async (lock) => {
    grant = lock.grant;
    await operator.lease.revoke({ lease: `session:${sb.identity!.session}`, reason: 'out' });
    await aborted(lock);
  });
  expect(await rejection(ran)).toMatchObject({ reason: 'sessionLost' });
  await sb.lock(next, () => {});
  await told('lock.released', next);
  expect(watcher.events().filter(({ event }) => event.data.grant === grant)).toMatchObject([
    { event: { type: 'lock.granted' } },
    { event: { type: 'lock.lost' } },
  ]);
});

test('a lock that is not free in time is HELD, at once with waitMs 0', async () => {
  const [one, two] = [await client(), await client({ agent: 'a2' })];
  const name = fresh();
  await one.lock(name, async () => {
    expect(await rejection(two.lock(name, { waitMs: 0 }, () => {}))).toMatchObject({
      code: 'HELD',
      details: { holder: { agent: 'a1' } },
    });
    expect(await rejection(two.lock(name, { waitMs: 50 }, () => {}))).toMatchObject({ code: 'HELD' });
  });
});

test('calls nested in a handler share its owner: a circle is found out, whoever closes it', async () => {
  const [one, two] = [await client(), await client({ agent: 'a2' })];
  const [m, n] = [fresh(), fresh()];
  const errors = await Promise.all([
    one.lock(m, async () => {
      await told('lock.granted', n);
      return one.lock(n, () => 'one').catch((error) => error);
    }),
    two.lock(n, async () => {
      await told('lock.granted', m);
      return two.lock(m, () => 'two').catch((error) => error);
    }),
  ]);
  expect(errors.filter((each) => (each as Any).code === 'DEADLOCK')).toHaveLength(1);
  expect(await rejection(one.lock(m, () => one.lock(m, () => {})))).toMatchObject({ code: 'DEADLOCK' });
});

test('L1: a link that is cut silently: the holder is told by its own clock, before anybody else has the lock', async () => {
  const { sb, link } = await behind();
  const other = await client({ agent: 'a2' });
  const name = fresh();
  let lostAt = 0;
  const holding = rejection(
    sb.lock(name, async (lock) => {
      link.silence();
      await aborted(lock);
      lostAt = performance.now();
      link.heal();
    }),
  );
  await told('lock.granted', name);
  await other.lock(name, { waitMs: 10_000 }, () => expect(performance.now()).toBeGreaterThan(lostAt));
  expect(lostAt).toBeGreaterThan(0);
  expect(await holding).toMatchObject({ name: 'Ended', reason: 'cannotRenew' });
});

test('L7: a process that was frozen finds the lock gone before its first line after the thaw can send', async () => {
  const sb = await client();
  const name = fresh();
  const ended = await rejection(
    sb.lock(name, ({ signal }) => {
      const until = performance.now() + 1600;
      while (performance.now() < until);
      expect(signal.aborted).toBe(true);
      expect(signal.reason).toMatchObject({ reason: 'cannotRenew' });
    }),
  );
  expect(ended).toMatchObject({ name: 'Ended', reason: 'cannotRenew' });
});

test.each(['lock.acquire', 'lock.release'])(
  'L10: the answer to %s is lost: one grant, one fence, one event each',
  async (op) => {
    const { sb, link } = await behind();
    const name = fresh();
    if (op === 'lock.acquire') link.swallowNext();
    await sb.lock(name, () => {
      if (op === 'lock.release') link.swallowNext();
    });
    expect(link.connections).toBe(2);
    await told('lock.released', name);
    expect(storyOf(watcher, name).map((each) => each.split(':')[0])).toEqual(['granted', 'released']);
  },
);

/** One client holds a lock until `done` opens, another one waits for it behind a link that can be broken. */
async function waitingBehind() {
  const { sb, link } = await behind();
  const other = await client({ agent: 'a2' });
  const name = fresh();
  const done = gate();
  const holding = other.lock(name, () => done.opened);
  await told('lock.granted', name);
  const waiting = sb.lock(name, () => 'granted');
  await told('lock.waiting', name);
  return { link, name, done, holding, waiting };
}

test('a wait outlives its socket: the client comes back and is granted', async () => {
  const { link, done, holding, waiting } = await waitingBehind();
  link.cut();
  await sleep(20);
  done.open();
  await holding;
  expect(await waiting).toBe('granted');
});

test('what was granted on a link that had just died is found in the holdings', async () => {
  const { link, name, done, holding, waiting } = await waitingBehind();
  link.silence();
  done.open();
  await holding;
  // The daemon has pushed it into a link that swallows.
  await watcher.until(() => storyOf(watcher, name).filter((each) => each.startsWith('granted')).length === 2);
  link.heal();
  expect(await waiting).toBe('granted');
});

test('break, maxHoldMs and a lapsed lease tell the handler', async () => {
  const [sb, operator] = [await client(), await client({ agent: 'op' })];
  const name = fresh();
  const broken = rejection(sb.lock(name, aborted));
  await told('lock.granted', name);
  await operator.lock.break({ name, reason: 'enough' });
  expect(await broken).toMatchObject({ reason: 'broken' });
  expect(await rejection(sb.lock(fresh(), { maxHoldMs: 200 }, aborted))).toMatchObject({ reason: 'maxHold' });
  // Renewed for as long as its handler runs.
  await sb.lock(fresh(), { leaseMs: 600 }, async ({ signal }) => {
    await sleep(1500);
    expect(signal.aborted).toBe(false);
  });
});

test('L6: 1000 acquires given up at any moment leave neither holder nor waiter', { timeout: 60_000 }, async () => {
  const seed = Math.floor(Math.random() * 1e9);
  console.log(`L6: seed ${seed}`);
  const random = new Random(seed);
  const [sb, other] = [await client(), await client({ agent: 'a2' })];
  const names = Array.from({ length: 10 }, () => fresh());
  const lane = async (name: string): Promise<void> => {
    for (let round = 0; round < 100; round++) {
      const controller = new AbortController();
      const busy = round % 2 === 0 ? other.lock(name, () => sleep(2)) : Promise.resolve();
      const run = sb.lock(name, { signal: controller.signal }, () => sleep(1)).catch((error) => error);
      setTimeout(() => controller.abort(new Error('given up')), 5 * random.next());
      const outcome = (await run) as Any;
      if (outcome) expect(outcome.message).toBe('given up');
      await busy;
    }
  };
  await Promise.all(names.map(lane));
  expect(await leftoversOf(world, ...names)).toEqual([]);
});

test('several locks in one step, permits and paths', async () => {
  const sb = await client();
  const [m, semaphore] = [fresh(), fresh()];
  await sb.lock.define({ name: semaphore, capacity: 2 });
  await sb.lock([m, { name: semaphore, permits: 2 }, 'path:src/**'], async ({ fence }) => {
    for (const name of [m, semaphore, 'path:src/a/b.ts'])
      expect(await sb.lock.check({ name, fence })).toMatchObject({ valid: true });
    expect(await rejection(sb.lock('path:src/x', { waitMs: 0 }, () => {}))).toMatchObject({ code: 'HELD' });
  });
  await sb.lock.define({ name: semaphore, change: true });
});

test('an election needs no options: it leads at once, and stands until the client is closed', async () => {
  const sb = await client({ agent: 'only' });
  let ended: Promise<unknown> = Promise.resolve();
  const term = await new Promise<number>((resolve) => {
    const lead = async ({ term, signal }: { term: number; signal: AbortSignal }): Promise<void> => {
      resolve(term);
      await new Promise((gone) => signal.addEventListener('abort', gone));
    };
    ended = sb.elect(fresh(), lead).catch((error) => error);
  });
  expect(term).toBeGreaterThan(0);
  await sb.close();
  expect(await ended).toBeUndefined();
});

test('an election: one leads, terms rise, a leader that is lost is followed by the next, and observers see every term', async () => {
  const name = fresh();
  const observer = await client({ agent: 'observer' });
  const news: TermNews[] = [];
  await observer.terms(name, (each) => void news.push(each));
  const stop = new AbortController();
  const terms: { agent: string; term: number }[] = [];
  const done = ['c1', 'c2', 'c3'].map(async (agent) => {
    const sb = await client({ agent });
    await sb.elect(name, { signal: stop.signal }, async ({ term, signal }) => {
      terms.push({ agent, term });
      await new Promise((resolve) => {
        if (signal.aborted) resolve(undefined);
        else signal.addEventListener('abort', resolve);
      });
    });
  });
  for (let count = 1; count <= 4; count++) {
    while (terms.length < count) await sleep(5);
    await observer.lock.break({ name, reason: 'the next one' });
  }
  while (terms.length < 5) await sleep(5);
  stop.abort();
  await Promise.all(done);
  const numbers = terms.map(({ term }) => term);
  expect(numbers).toEqual([...numbers].sort((x, y) => x - y));
  while (news.length < 10) await sleep(5);
  // A candidate that gives up may still be given a term, and gives it back.
  const began = news.filter((each) => each.kind === 'began').slice(0, 5);
  expect(began.map(({ term }) => term)).toEqual(numbers);
  expect(began.map(({ leader }) => leader.agent)).toEqual(terms.map(({ agent }) => agent));
  expect(news.slice(0, 10).map(({ kind }) => kind)).toEqual(Array.from({ length: 5 }, () => ['began', 'ended']).flat());
});

test('FLUSHALL under a running handler: the lock is claimed back under a higher fence, and nobody had it in between', async () => {
  const [sb, other] = [await client(), await client({ agent: 'a2' })];
  const name = fresh();
  const seen = await sb.lock(name, async (lock) => {
    const before = lock.fence;
    const redis = world.redis.client();
    await redis.flushall();
    redis.disconnect();
    while (lock.fence === before && !lock.signal.aborted) await sleep(10);
    expect(lock.signal.aborted).toBe(false);
    expect(await other.lock.check({ name, fence: lock.fence })).toMatchObject({ valid: true });
    return [before, lock.fence];
  });
  expect(seen[1]).toBeGreaterThan(seen[0]!);
});
