import { afterAll, afterEach, beforeAll } from 'vitest';
import { type Settings, startDaemon, type TestDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import type { Wire } from '../support/wire.js';
import { checkAtRest } from './at-rest.js';

export interface NearAndFar {
  proxy: FaultProxy;
  /** Its link to Redis goes through the proxy. */
  near: TestDaemon;
  far: TestDaemon;
  /** A session on `far`, which hears and does what the link of `near` would lose. */
  producer: Wire;
}

/** Two daemons on one Redis, the link of one of them in the test's hand. In the end nothing may be left of any task. */
export function nearAndFar(nearSettings: Settings = {}, farSettings: Settings = {}): NearAndFar {
  const rig = {} as NearAndFar;
  let redis: TestRedis;
  beforeAll(async () => {
    redis = await startRedis();
    rig.proxy = await startProxy(redis.path);
    [rig.near, rig.far] = await Promise.all([
      startDaemon(`redis://127.0.0.1:${rig.proxy.port}`, nearSettings),
      startDaemon(redis.path, farSettings),
    ]);
    rig.producer = await rig.far.session({ ttlMs: 120_000 });
  });
  afterEach(() => rig.proxy.heal());
  afterAll(async () => {
    await checkAtRest(redis);
    await Promise.all([rig.near.stop(), rig.far.stop()]);
    await rig.proxy.close();
    await redis.stop();
  });
  return rig;
}
