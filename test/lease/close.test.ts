import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Any } from '../support/wire.js';
import { fill, hold, watch } from './support.js';

let world: World;
let daemon: TestDaemon;
beforeAll(async () => {
  world = await startWorld();
  daemon = world.daemon;
});
afterAll(() => world.stop());

describe('session.close', () => {
  test('[1b] gives everything back at once, charged, and answers how much it was', async () => {
    const watcher = await watch(daemon);
    const wire = await daemon.session({ agent: 'closer' });
    const queue = await fill(wire, 250, { maxAttempts: 2 });
    for (let i = 0; i < 3; i++) await hold(wire, queue);
    expect(await wire.call('session.close')).toEqual({ released: 250 });
    const other = await daemon.session({ agent: 'next' });
    const claimed = await hold(other, queue);
    expect(claimed).toHaveLength(100);
    expect(claimed.every(({ attempt }: Any) => attempt === 2)).toBe(true);
    await watcher.until(
      () =>
        watcher.events().filter(({ event }) => event.type === 'task.retried' && event.data.queue === queue).length ===
        250,
    );
    const closed = await watcher.event('session.closed', wire.opened.session);
    expect(closed.event.data).toEqual({ session: wire.opened.session, agent: 'closer', reason: 'closed' });
    const first = watcher.events().find(({ event }) => event.type === 'task.retried' && event.data.queue === queue);
    expect(first.event.data).toMatchObject({
      reason: 'sessionLost',
      session: wire.opened.session,
      agent: 'closer',
      attempt: 1,
      state: 'ready',
    });
    expect(first.offset).toBeGreaterThan(closed.offset);
    await until(async () => (await world.redis.client().keys(`*${wire.opened.session}*`)).length === 0);
  });

  test('refuses params, and a caller without a session', async () => {
    const wire = await daemon.session();
    expect(await wire.refused('session.close', { session: wire.opened.session })).toMatchObject({
      code: 'BAD_REQUEST',
      path: 'session',
    });
    expect(await (await daemon.wire()).refused('session.close')).toMatchObject({ code: 'NO_SESSION' });
    await wire.call('session.close');
    expect(await wire.refused('session.close')).toMatchObject({ code: 'NO_SESSION' });
  });
});
