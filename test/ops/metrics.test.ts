import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { queuesMax } from '../../src/ops/queue-metrics.js';
import { startWorld, type TestDaemon, type World } from '../support/daemon.js';
import { until } from '../support/until.js';
import type { Wire } from '../support/wire.js';

let world: World;
let agent: Wire;
beforeAll(async () => {
  world = await startWorld();
  agent = await world.daemon.session({ agent: 'agent-name', ttlMs: 60_000 });
});
afterAll(() => world.stop());

async function scrape(daemon: TestDaemon, headers: Record<string, string> = {}): Promise<string> {
  const response = await fetch(`${daemon.http}/metrics`, { headers });
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toContain('text/plain; version=0.0.4');
  return response.text();
}

/** Value of a series by its name and labels as they stand in the text. */
function valueIn(text: string, series: string): number | undefined {
  const line = text.split('\n').find((line) => line.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

describe('R22: queue health', () => {
  test('depth, max depth, overloaded and the age of the oldest, in queue.stats and in /metrics alike', async () => {
    await agent.call('queue.configure', { queue: 'r22', maxDepth: 3 });
    const tasks = [{ payload: 1 }, { payload: 2 }, { payload: 3 }];
    await agent.call('queue.enqueue', { queue: 'r22', tasks });
    await until(async () => (await agent.call('queue.stats', { queue: 'r22' })).queues[0].oldestReadyMs > 0);
    const [stats] = (await agent.call('queue.stats', { queue: 'r22' })).queues;
    expect(stats).toMatchObject({ depth: 3, maxDepth: 3, overloaded: true });
    const labels = 'namespace="default",queue="r22"';
    let text = await scrape(world.daemon);
    expect(valueIn(text, `signalbox_queue_depth{${labels}}`)).toBe(3);
    expect(valueIn(text, `signalbox_queue_max_depth{${labels}}`)).toBe(3);
    expect(valueIn(text, `signalbox_queue_overloaded{${labels}}`)).toBe(1);
    expect(valueIn(text, `signalbox_queue_oldest_age_seconds{${labels}}`)).toBeGreaterThanOrEqual(
      stats.oldestReadyMs / 1000,
    );
    await agent.call('queue.claim', { queue: 'r22', count: 2 });
    // The numbers of queues are at most a second old.
    await until(async () => {
      text = await scrape(world.daemon);
      return valueIn(text, `signalbox_queue_depth{${labels}}`) === 1;
    });
    expect(valueIn(text, `signalbox_queue_tasks{${labels},state="active"}`)).toBe(2);
    expect(valueIn(text, `signalbox_queue_overloaded{${labels}}`)).toBe(0);
  });
});

test('limits: by dimension what there is, is used, reserved and left, and who waits', async () => {
  const name = 'metered';
  const dimensions = { requests: { amount: 10, perMs: 60_000 }, concurrency: { amount: 2 } };
  await agent.call('limit.define', { name, kind: 'window', dimensions });
  const cost = { requests: 3, concurrency: 1 };
  const [settled] = [
    await agent.call('limit.reserve', { name, cost }),
    await agent.call('limit.reserve', { name, cost }),
  ];
  await agent.call('limit.settle', { reservation: settled.reservation });
  await agent.call('limit.reserve', { name, cost: { requests: 9 }, waitMs: 60_000 });
  let text = '';
  const of = (gauge: string, dimension?: string): number | undefined =>
    valueIn(
      text,
      `signalbox_limit_${gauge}{namespace="default",limit="${name}"${dimension ? `,dimension="${dimension}"` : ''}}`,
    );
  await until(async () => {
    text = await scrape(world.daemon);
    return of('waiting') === 1;
  });
  expect(['amount', 'used', 'reserved', 'remaining'].map((gauge) => of(gauge, 'requests'))).toEqual([10, 3, 3, 4]);
  expect(['amount', 'used', 'reserved', 'remaining'].map((gauge) => of(gauge, 'concurrency'))).toEqual([2, 0, 1, 1]);
  expect(of('blocked')).toBe(0);
});

test('requests are counted by op and code, with their time', async () => {
  const before = await scrape(world.daemon);
  await agent.refused('queue.get', { task: 'nobody' });
  await agent.refused('no.such.op', {});
  const after = await scrape(world.daemon);
  const grown = (series: string): number => (valueIn(after, series) ?? 0) - (valueIn(before, series) ?? 0);
  expect(grown('signalbox_commands_total{op="queue.get",code="NOT_FOUND"}')).toBe(1);
  expect(grown('signalbox_commands_total{op="unknown",code="UNKNOWN_OP"}')).toBe(1);
  expect(grown('signalbox_command_seconds_count{op="queue.get"}')).toBe(1);
  expect(grown('signalbox_command_seconds_bucket{le="+Inf",op="queue.get"}')).toBe(1);
});

test('connections, sessions, workers, feed, log and Redis have their numbers', async () => {
  await agent.call('queue.work', { queue: 'numbers', credit: 1 });
  await agent.call('feed.subscribe', { types: ['nothing.here'] });
  const text = await scrape(world.daemon);
  expect(valueIn(text, 'signalbox_connections')).toBe(1);
  expect(valueIn(text, 'signalbox_sessions{namespace="default"}')).toBe(1);
  expect(valueIn(text, 'signalbox_workers{namespace="default"}')).toBe(1);
  expect(valueIn(text, 'signalbox_feed_tails')).toBe(1);
  expect(valueIn(text, 'signalbox_redis_up')).toBe(1);
  expect(valueIn(text, 'signalbox_draining')).toBe(0);
  expect(valueIn(text, 'signalbox_faults_total')).toBe(0);
  expect(valueIn(text, 'signalbox_redis_rtt_seconds')).toBeGreaterThan(0);
  expect(valueIn(text, 'signalbox_log_offset{namespace="default"}')).toBeGreaterThan(0);
  expect(valueIn(text, 'signalbox_log_reader_age_seconds{namespace="default"}')).toBeLessThan(5);
  expect(valueIn(text, 'signalbox_process_resident_memory_bytes')).toBeGreaterThan(0);
});

test('labels are bounded: no ids of anything, and not more queues than there are series for', async () => {
  for (let i = 0; i <= queuesMax; i++) {
    await agent.call('queue.enqueue', {
      queue: `many-${String(i).padStart(3, '0')}`,
      tasks: [{ payload: 'hidden-payload' }],
    });
  }
  let text = '';
  await until(async () => {
    text = await scrape(world.daemon);
    return (valueIn(text, 'signalbox_queues_unlisted') ?? 0) > 0;
  });
  const queues = text.match(/^signalbox_queue_depth\{.*$/gm)!;
  expect(queues).toHaveLength(queuesMax);
  expect(text).not.toMatch(/hidden-payload|agent-name/);
  expect(text).not.toContain((agent as Wire & { opened: { session: string } }).opened.session);
});

test('with a token, whoever asks for metrics has to present it; health stays open', async () => {
  const guarded = await world.another({ 'gateway.token': 'secret' });
  expect((await fetch(`${guarded.http}/metrics`)).status).toBe(401);
  expect((await fetch(`${guarded.http}/metrics`, { headers: { authorization: 'Bearer guess' } })).status).toBe(401);
  expect((await fetch(`${guarded.http}/healthz`)).status).toBe(200);
  expect(await scrape(guarded, { authorization: 'Bearer secret' })).toContain('signalbox_info');
});

test('Redis away: what the daemon knows by itself is told all the same, and of what it does not know nothing', async () => {
  const depths = /^signalbox_queue_depth\{|^signalbox_limit_amount\{/m;
  expect(await scrape(world.daemon)).toMatch(depths);
  await world.redis.kill();
  await until(async () => valueIn(await scrape(world.daemon), 'signalbox_redis_up') === 0);
  const text = await scrape(world.daemon);
  expect(valueIn(text, 'signalbox_connections')).toBe(1);
  expect(text).not.toMatch(depths);
  await world.redis.restart();
  await until(async () => valueIn(await scrape(world.daemon), 'signalbox_redis_up') === 1);
});
