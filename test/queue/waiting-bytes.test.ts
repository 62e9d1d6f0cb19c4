import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandTable } from '../../src/commands.js';
import { WorkerPool } from '../../src/gateway/workers.js';
import { QueueJoins } from '../../src/queue/joins.js';
import { openRedis, ScriptRunner } from '../../src/redis/connection.js';
import { Namespace } from '../../src/redis/namespace.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import type { Any } from '../support/wire.js';

/** What waits for Redis in this process is bounded in bytes: what a client may send is large, and Redis may be slow. */
let redis: TestRedis;
let namespace: Namespace;
let queues: QueueJoins;
let close: () => void;
beforeAll(async () => {
  redis = await startRedis();
  const client = openRedis({ kind: 'socket', path: redis.path }, 'commands', 10_000);
  client.on('error', () => undefined);
  await client.connect();
  close = () => client.disconnect();
  namespace = new Namespace('default', new ScriptRunner(client, []), { daemon: 'd', eventsMax: 1000 });
  const pool = new WorkerPool(
    async () => [],
    async () => [],
    () => undefined,
  );
  const memory = { short: false, puts: () => undefined };
  queues = new QueueJoins(namespace, pool, memory, { kindsMax: 64, refundsMax: 10 });
});
afterAll(async () => {
  close();
  await redis.stop();
});

// One text for all: the bound reckons with what it would be if each had its own.
const text = JSON.stringify('x'.repeat(1024 * 1024));
const rest = { session: 's', binding: 1, fence: 1, afterMs: undefined };
const names = Array.from({ length: 257 }, (_, i) => `t${i}`);

test('of failures and of hand-backs', async () => {
  const failures = names.map((task) => ({ ...rest, task, error: text, cut: '""', retry: true }));
  await expect(queues.fail(failures)).rejects.toMatchObject({ code: 'UNAVAILABLE', retry: true });
  const releases = names.map((task) => ({ ...rest, task, reason: 'released' as const, saved: text }));
  await expect(queues.release(releases)).rejects.toMatchObject({ code: 'UNAVAILABLE', retry: true });
  expect(await queues.fail(failures.slice(0, 2))).toEqual(['!NOT_FOUND', '!NOT_FOUND']);
});

test('of published events', async () => {
  const publish = commandTable.get('feed.publish')!;
  const context = {
    namespace,
    session: { agent: 'a' },
    config: { log: { publishedBytes: 4e6, publishWindowMs: 1000 } },
  };
  const events = names.slice(0, 65).map((id) => ({ type: 'thing.happened', id, data: text }));
  await expect(publish.run({ events }, context as Any)).rejects.toMatchObject({ code: 'UNAVAILABLE', retry: true });
  expect(String((await publish.run({ events: events.slice(0, 2) }, context as Any)).text)).toContain('position');
});
