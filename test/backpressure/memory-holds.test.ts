import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Any, Wire } from '../support/wire.js';

const megabytes = 16;
let world: World;
beforeAll(async () => {
  // Waits are bounded by what Redis has room for, and by nothing else.
  const settings = { 'lock.waitersMax': 1_000_000, 'limit.waitersMax': 1_000_000 };
  world = await startWorld(settings, ['--maxmemory', `${megabytes}mb`]);
});
afterAll(() => world.stop());

const refusal = {
  code: 'UNAVAILABLE',
  retry: true,
  afterMs: expect.any(Number),
  message: expect.stringContaining('memory'),
  details: { scope: 'memory' },
};

/** Asks until one is refused, a hundred at a time; answers the refusal and what was answered before. */
async function fill(ask: () => Promise<Any>): Promise<{ error: Any; answers: Any[] }> {
  const answers: Any[] = [];
  while (answers.length < 60_000) {
    const batch = await Promise.allSettled(Array.from({ length: 100 }, ask));
    for (const each of batch) if (each.status === 'fulfilled') answers.push(each.value);
    const failed = batch.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
    if (failed) return { error: failed.reason.error, answers };
  }
  throw new Error('nothing was refused');
}

const all = async (list: readonly Any[], act: (one: Any) => Promise<Any>): Promise<void> => {
  for (let from = 0; from < list.length; from += 100) await Promise.all(list.slice(from, from + 100).map(act));
};

let names = 0;
const cases: [string, (wire: Wire, name: string) => Promise<Any>][] = [
  ['grants of free locks', (wire) => wire.call('lock.acquire', { name: `free-${names++}` })],
  ['waits for one lock', (wire, name) => wire.call('lock.acquire', { name, owner: `${names++}`, waitMs: 3_600_000 })],
  ['reservations', (wire) => wire.call('limit.reserve', { name: 'open', cost: { n: 1 } })],
  ['waits for one limit', (wire) => wire.call('limit.reserve', { name: 'shut', cost: { n: 1 }, waitMs: 3_600_000 })],
];

test.each(cases)(
  'near the memory limit %s are refused; what is held is renewed, settled and given back, and it opens by itself',
  async (_, ask) => {
    const [wire, keeper] = [await world.daemon.session(), await world.daemon.session()];
    const client = world.redis.client();
    const name = `held-${names++}`;
    for (const limit of ['open', 'shut']) {
      const dimensions = { n: { amount: 1_000_000, perMs: 86_400_000 } };
      await wire.call('limit.define', { name: limit, kind: 'window', dimensions });
    }
    await wire.call('limit.penalize', { name: 'shut', afterMs: 3_600_000 });
    const held = await keeper.call('lock.acquire', { name });
    const reservation = await keeper.call('limit.reserve', { name: 'open', cost: { n: 1 } });

    const { error, answers } = await fill(() => ask(wire, name));
    expect(error).toMatchObject(refusal);
    expect(answers.length).toBeGreaterThan(1000);
    const used = Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
    expect(used).toBeLessThan(megabytes * 1024 * 1024);

    // Nothing new of either kind; what is there goes on.
    expect(await keeper.refused('lock.acquire', { name: `new-${names}` })).toMatchObject(refusal);
    expect(await keeper.refused('limit.reserve', { name: 'open', cost: { n: 1 } })).toMatchObject(refusal);
    const again = await keeper.call('lock.acquire', { name, grant: held.grant });
    expect(again).toMatchObject({ state: 'held', fence: held.fence });
    const { reservation: id, fence } = reservation;
    const same = await keeper.call('limit.reserve', { name: 'open', cost: { n: 1 }, reservation: id });
    expect(same).toMatchObject({ state: 'granted', fence });
    await keeper.call('ping');
    await keeper.call('limit.settle', { reservation: id });
    expect((await keeper.call('lock.release', { grant: held.grant })).state).toBe('released');

    await wire.call('session.close', {});
    // What has ended is remembered for a minute, as keys of its own: here that minute is over at once.
    for (const pattern of ['reservation', 'grant', 'lock']) {
      const keys = await client.keys(`sb:{default}:${pattern}:*`);
      await all(keys, async (key) => (await client.pttl(key)) > 0 && client.del(key));
    }
    await until(
      () =>
        keeper.call('lock.acquire', { name: `new-${names}` }).then(
          () => true,
          () => false,
        ),
      30_000,
    );
    await keeper.call('session.close', {});
    client.disconnect();
  },
  60_000,
);
