import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';

let world: World;
beforeAll(async () => {
  // Nobody looks for sessions that have run out while the test goes on.
  world = await startWorld({ 'sweep.everyMs': 10_000 });
});
afterAll(() => world.stop());

test('a session that ran out before its daemon knows: a script says SESSION_LOST, and a new one opens on the socket at once', async () => {
  const client = world.redis.client();
  for (let round = 0; round < 20; round++) {
    const wire = await world.daemon.session({ agent: 'late', ttlMs: 60_000 });
    const { session } = wire.opened;
    await client.zadd('sb:{default}:sessions', 1, session);
    expect(await wire.refused('lock.acquire', { name: 'unseen' })).toMatchObject({ code: 'SESSION_LOST' });
    const again = await wire.call('session.open', { agent: 'late' });
    expect(again.session).not.toBe(session);
    const told = wire.lines.findIndex(({ op, name }) => op === 'lost' && name === session);
    expect(told).toBeGreaterThan(-1);
    expect(told).toBeLessThan(wire.lines.findIndex(({ error }) => error?.code === 'SESSION_LOST'));
    await wire.close();
  }
  client.disconnect();
});
