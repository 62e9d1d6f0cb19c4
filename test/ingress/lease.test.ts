import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { IngressLease } from '../../src/ingress/lease.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { Daemon } from './world.js';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

// The story: an appender's script came to Redis late, so what it had not heard yet counted as appended. It died, and the
// standby dropped three messages from its tape that were in nobody's log, and told no gap.
test('what counts as done comes out no later than it was, however long a script is under way', async () => {
  const client = redis.client();
  const timeMs = async (): Promise<number> => {
    const [seconds, micros] = await client.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  };
  const heardAt = async (): Promise<number> => Number(await client.hget('sb:{default}:ingress', 'heardAt'));
  const lateMs = 700;
  let late = false;
  const daemon = new Daemon(redis, 'late', {
    calls: async (call) => {
      if (late) await sleep(lateMs);
      return call();
    },
  });
  await daemon.commands.connect();
  const lease = new IngressLease(daemon.namespaces.get('default')!, { leaseMs: 5000, publishWindowMs: 60_000 });
  late = true;
  const before = await timeMs();
  const taken = await lease.take(0);
  expect(taken).toEqual({ taken: true, done: undefined });
  expect(await heardAt()).toBeLessThanOrEqual(before + 1);
  const place = { mark: '', count: 0 };
  for (const call of [
    () => lease.append([], { place, doneAgoMs: 0 }, ''),
    () => lease.renew({ place, doneAgoMs: 0 }),
    () => lease.append([], { place, doneAgoMs: 40 }, ''),
    () => lease.release({ place, doneAgoMs: 0 }),
  ]) {
    const at = await timeMs();
    await call();
    expect(await heardAt()).toBeLessThanOrEqual(at);
    expect(await heardAt()).toBeGreaterThan(at - 200);
  }
  daemon.commands.disconnect();
  client.disconnect();
});
