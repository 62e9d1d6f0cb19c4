import { afterAll, beforeAll, expect, test } from 'vitest';
import { subscribe } from '../../src/feed/index.js';
import type { FeedTail } from '../../src/gateway/sinks.js';
import { runOnce as trim } from '../../src/sweeps/trim-log.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { call } from './call.js';
import { FakeSink, World } from './world.js';

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

/**
 * Whatever happens to the log and to the sockets: what a tail got is in order, nothing comes twice, and where something
 * is missing a gap stands in its place.
 */
function check(sink: FakeSink, seed: number, from: number, last: number): void {
  let done = from;
  let gap = false;
  for (const { op, event } of sink.lines) {
    if (op === 'gap') gap = true;
    const n = op === 'event' ? (event!.data as { n?: number }).n : undefined;
    if (n === undefined) continue;
    expect(n, `seed ${seed}: in order, once`).toBeGreaterThan(done);
    if (!gap) expect(n, `seed ${seed}: nothing missing without a gap`).toBe(done + 1);
    done = n;
    gap = false;
  }
  expect(done, `seed ${seed}: everything came`).toBe(last);
}

interface Watching {
  readonly sink: FakeSink;
  readonly tail: FeedTail;
  readonly from: number;
}

async function history(seed: number): Promise<void> {
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 4_294_967_296) * below);
  };
  const client = redis.client();
  await client.flushall();
  const world = await World.start(redis, { ringBytes: 20_000, settings: { log: { readBlockMs: 50 } } });
  const watching: Watching[] = [];
  /** By `epoch:offset`: the number of the last event up to there. */
  const numbers = new Map<string, number>();
  let n = 0;

  /** `scripts` at once, each with so many events; what is sent first is numbered first. */
  const emit = async (count: number, scripts = 1): Promise<void> => {
    const sent: Promise<void>[] = [];
    for (let i = 0; i < scripts; i++) {
      const first = n + 1;
      n += count;
      sent.push(world.emit(...Array.from({ length: count }, (_, i): [string, unknown] => ['a.b', { n: first + i }])));
    }
    await Promise.all(sent);
    numbers.set(world.namespace.seenPosition, n);
  };
  const watch = async (): Promise<void> => {
    const sink = new FakeSink();
    const tail = world.router.open(sink);
    const known = [...numbers];
    const [from, number] = known[random(known.length)] ?? ['new', n];
    const reply = await call(world, tail, subscribe, { types: ['a.*', 'x'], from, onGap: 'skip' }).catch(
      () => undefined,
    );
    if (reply) watching.push({ sink, tail, from: from === 'new' ? n : number });
  };
  const steps: readonly (() => Promise<void>)[] = [
    () => emit(1 + random(5)),
    () => emit(1 + random(200)),
    () => emit(1, 1 + random(60)),
    watch,
    async () => {
      const { sink } = watching[random(watching.length)] ?? {};
      if (sink) sink.space = random(3) * 2000;
    },
    async () => watching[random(watching.length)]?.sink.drain(random(20_000)),
    async () => void (await client.hset('sb:{default}:meta', 'replid', `r${random(1e9)}`)),
    async () => void (await trim(world.namespace, { ageMaxMs: 1e9, bytesMax: 3000 + random(30_000) })),
    async () => void (random(4) === 0 && (await client.flushall())),
    async () => void (await new Promise((resolve) => setTimeout(resolve, random(30)))),
  ];
  try {
    for (let step = 0; step < 60; step++) await steps[random(steps.length)]!();
    await emit(1);
    const last = n;
    await until(() => {
      for (const { sink } of watching) sink.drain();
      return watching.every(({ sink, from }) => from === last || sink.numbers.at(-1) === last);
    });
    for (const { sink, from } of watching) check(sink, seed, from, last);
  } catch (error) {
    throw new Error(`seed ${seed}`, { cause: error });
  } finally {
    await world.stop();
  }
}

test('random histories of a log and its tails keep order, number and gaps', async () => {
  const first = Number(process.env.SEED ?? Date.now() % 1_000_000);
  const count = Number(process.env.HISTORIES ?? 12);
  console.log(`seeds ${first} to ${first + count - 1}`);
  for (let i = 0; i < count; i++) await history(first + i);
}, 120_000);
