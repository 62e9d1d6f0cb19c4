import { setTimeout as wait } from 'node:timers/promises';
import type { Contestant } from '../contestant.js';
import { firstRound, type Line, type Sample } from '../line.js';
import type { Load } from '../side.js';

type Timed = 'enqueue' | 'enqueueBatched' | 'work' | 'workBatched';

/** The rate of one verb, with the CPU that all processes of the side spent on it. */
async function rate(side: Contestant, verb: Timed, load: Load): Promise<Sample & { rate: number }> {
  const { value: took, cpu } = await side.spending(() => side.ask(verb, load));
  return { rate: load.tasks / took, values: { rate: load.tasks / took }, tasks: load.tasks, cpu };
}

const enqueueing = (id: string, title: string, verb: 'enqueue' | 'enqueueBatched', ratio: number): Line => ({
  id,
  subject: 'queue',
  rows: [{ value: 'rate', title, unit: 'tasks/s', target: { ratio, better: 'more' } }],
  async measure(side, { load }, round) {
    await side.ask('queue', `${id}-${round}`);
    return rate(side, verb, load);
  },
});

const working = (id: string, title: string, verb: 'work' | 'workBatched', ratio: number): Line => ({
  id,
  subject: 'queue',
  rows: [{ value: 'rate', title, unit: 'tasks/s', target: { ratio, better: 'more' } }],
  async measure(side, { load }, round) {
    await side.ask('queue', `${id}-${round}`);
    await side.ask('fill', load);
    return rate(side, verb, load);
  },
});

/** Rates with many tasks waiting: the same number is taken as was put before, so the backlog stays what it is. */
const behind = (id: string, title: string, flag: 'million' | undefined): Line => ({
  id,
  subject: 'queue',
  ...(flag ? { flag } : {}),
  rows: (['enqueue', 'work'] as const).map((value) => ({
    value,
    title: `${value === 'enqueue' ? 'enqueue' : 'claim+complete'}, ${title} waiting`,
    unit: 'tasks/s',
    ...(flag ? { against: { line: 'backlog', value, ratio: 0.8, named: '10 k' } } : {}),
  })),
  async measure(side, { load, backlog }, round) {
    const tasks = flag ? 100 * backlog : backlog;
    if (round === firstRound) {
      await side.ask('queue', id);
      await side.ask('fill', { ...load, tasks });
      await rested(side);
    }
    const put = await rate(side, 'enqueue', load);
    const taken = await rate(side, 'work', load);
    return { values: { enqueue: put.rate, work: taken.rate } };
  },
});

export const queueLines: readonly Line[] = [
  enqueueing('enqueue', 'enqueue, one by one', 'enqueue', 1.1),
  enqueueing('enqueue-batched', 'enqueue, 50 a call', 'enqueueBatched', 3),
  working('complete', 'claim+complete, one by one', 'work', 1.7),
  working('complete-batched', 'claim+complete, 50 a call', 'workBatched', 2.3),
  {
    id: 'latency',
    subject: 'queue',
    rows: [
      { value: 'p50', title: 'enqueue → agent, idle, p50', unit: 'ms', target: { ratio: 1.3, better: 'less' } },
      { value: 'p99', title: 'enqueue → agent, idle, p99', unit: 'ms', target: { ratio: 1.5, better: 'less' } },
    ],
    async measure(side, { load, latencySamples }, round) {
      await side.ask('queue', `latency-${round}`);
      const took = (await side.ask('latency', latencySamples, load)).sort((a, b) => a - b);
      const at = (share: number): number => took[Math.min(took.length - 1, Math.floor(took.length * share))]!;
      return { values: { p50: at(0.5), p99: at(0.99) } };
    },
  },
  {
    id: 'admission',
    subject: 'queue',
    rows: [
      { value: 'without', title: 'enqueue, one by one, admission off', unit: 'tasks/s' },
      {
        value: 'rate',
        title: 'the same, admission on',
        unit: 'tasks/s',
        against: { line: 'admission', value: 'without', ratio: 0.9, named: 'without' },
      },
    ],
    // In one round and taking turns at being first: what else the machine does hits both alike.
    async measure(side, { load }, round) {
      if (side.name !== 'signalbox') return { values: {} };
      const rates: Record<string, number> = {};
      for (const value of round % 2 === 0 ? ['without', 'rate'] : ['rate', 'without']) {
        await side.ask('queue', `admission-${value}-${round}`);
        if (value === 'rate') await side.ask('admit');
        rates[value] = (await rate(side, 'enqueue', load)).rate;
      }
      return { values: rates };
    },
  },
  behind('backlog', '10 k', undefined),
  behind('backlog-million', '1 M', 'million'),
  {
    id: 'memory',
    subject: 'queue',
    rounds: 1,
    rows: [
      { value: 'task', title: 'a waiting task in Redis', unit: 'bytes', target: { ratio: 1.1, better: 'less' } },
      { value: 'log', title: 'its events in the log', unit: 'bytes' },
    ],
    async measure(side, { load, memoryTasks: tasks }, round) {
      await side.ask('queue', `memory-${round}`);
      const before = await memoryOf(side);
      await side.ask('fill', { ...load, tasks });
      const after = await memoryOf(side);
      const log = after.log - before.log;
      return { values: { task: (after.used - before.used - log) / tasks, log: log / tasks } };
    },
  },
];

/** Filling makes Redis rewrite its file, in a process that takes a core and a copy of every page that is touched. */
async function rested({ redis: { client } }: Contestant): Promise<void> {
  while (/aof_rewrite_(in_progress|scheduled):1/.test(await client.info('persistence'))) await wait(100);
}

/** What the log takes is said apart: it is bounded by its own settings and not by the number of waiting tasks. */
async function memoryOf({ redis: { client } }: Contestant): Promise<{ used: number; log: number }> {
  const [, used = '0'] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? [];
  const streams: string[] = [];
  let cursor = '0';
  do {
    const [next, keys] = await client
      .call('SCAN', cursor, 'COUNT', '1000', 'TYPE', 'stream')
      .then((reply) => reply as [string, string[]]);
    cursor = next;
    streams.push(...keys);
  } while (cursor !== '0');
  const sizes = await Promise.all(streams.map((key) => client.call('MEMORY', 'USAGE', key, 'SAMPLES', '0')));
  return { used: Number(used), log: sizes.reduce<number>((sum, size) => sum + Number(size ?? 0), 0) };
}
