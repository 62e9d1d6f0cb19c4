import { expect, test } from 'vitest';
import { ConnectionWorkers } from '../../src/gateway/connection-workers.js';
import type { WorkersSink } from '../../src/gateway/sinks.js';
import { WorkerPool } from '../../src/gateway/workers.js';

const session = { id: 's', agent: 'a', tenant: 'default', binding: 1, ttlMs: 15_000, graceMs: 5000 };
const sink: WorkersSink = { deliver: () => undefined, push: () => undefined, onPong: () => undefined };
const fresh = new Map([['q', { tasks: 1, kinds: new Set(['']) }]]);

function rig() {
  const pool = new WorkerPool(
    async () => [],
    async () => [],
    () => undefined,
  );
  const workers = new ConnectionWorkers(() => session, pool, sink, 1024 * 1024);
  workers.declare({ worker: 'w', queue: 'q', credit: 1, kinds: undefined, leaseMs: undefined, holds: [] });
  /** Workers asked for in a script, which finds nothing. */
  const asked = (news?: typeof fresh): unknown => {
    const { args, settle } = pool.ask(undefined, news);
    settle([]);
    return args[0];
  };
  return { pool, workers, asked };
}

test('nothing is claimed for a worker whose socket is blocked, whether it was about to ask or waits for news', () => {
  const { workers, asked } = rig();
  workers.blocked(true);
  expect(asked()).toBe(0);
  workers.blocked(false);
  expect(asked()).toBe(1);
  workers.blocked(true);
  expect(asked(fresh)).toBe(0);
  workers.blocked(false);
  expect(asked(fresh)).toBe(1);
});

test('what becomes ready while its socket is blocked is asked for as soon as it is not', () => {
  const { pool, workers, asked } = rig();
  expect(asked()).toBe(1); // and found nothing
  expect(asked()).toBe(0);
  workers.blocked(true);
  pool.ready('q', undefined, 1);
  expect(asked()).toBe(0);
  workers.blocked(false);
  expect(asked()).toBe(1);
});

test('a script that another one follows asks for no more than it is told, and leaves the rest to that one', () => {
  const { pool, workers } = rig();
  workers.declare({ worker: 'v', queue: 'q', credit: 10, kinds: undefined, leaseMs: undefined, holds: [] });
  const counts = (most?: number): unknown[] => {
    const { args } = pool.ask(most);
    return Array.from({ length: args[0] as number }, (_, i) => args[8 * i + 7]);
  };
  expect(counts(4)).toEqual([1, 2]);
  expect(counts()).toEqual([8]);
});

test('news that comes while its socket is blocked is not lost to a worker, and not spent on it beside another', () => {
  const { pool, workers, asked } = rig();
  expect(asked()).toBe(1); // it found nothing
  workers.blocked(true);
  expect(asked(fresh)).toBe(0);
  workers.blocked(false);
  expect(asked()).toBe(1);
  workers.blocked(true);
  const other = new ConnectionWorkers(() => session, pool, sink, 1024 * 1024);
  other.declare({ worker: 'v', queue: 'q', credit: 1, kinds: undefined, leaseMs: undefined, holds: [] });
  expect(asked()).toBe(1);
  pool.ready('q', undefined, 1);
  expect(asked()).toBe(1);
});
