import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { Contestant, type Name } from './contestant.js';
import { daemonSettings } from './daemon.js';
import { firstRound, type Line, lines, type Plan } from './lines.js';
import { redisFlags } from './redis-server.js';
import { type Result, resultsOf, table } from './report.js';

/**
 * `npm run bench`: Signalbox through its socket beside BullMQ in process, in one run and taking turns, each with a
 * redis-server of its own started with the same flags. What a side keeps of finished work is the same too: all of it.
 */
const { values: options } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    million: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    tasks: { type: 'string' },
    json: { type: 'string' },
    profile: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const usage = `npm run bench -- [--only <line>]… [--quick] [--million] [--rounds n] [--tasks n] [--json file] [--profile dir]
lines: ${lines.map(({ id }) => id).join(' ')}`;

const names: readonly Name[] = ['bullmq', 'signalbox'];
const load = {
  tasks: Number(options.tasks ?? (options.quick ? 10_000 : 30_000)),
  inFlight: 100,
  batch: 50,
  payloadBytes: 200,
};
const plan: Plan = {
  load,
  rounds: Number(options.rounds ?? (options.quick ? 3 : 7)),
  latencySamples: options.quick ? 150 : 300,
  backlog: 10_000,
  memoryTasks: options.quick ? 20_000 : 100_000,
};

/** No line takes longer than this, whatever hangs; putting a million tasks there alone takes its time. */
const lineMaxMs = (line: Line): number => (line.flag === 'million' ? 1_200_000 : 300_000);

async function run(line: Line, earlier: readonly Result[]): Promise<Result[]> {
  const sides = await Promise.all(names.map((name) => Contestant.start(name, options.profile)));
  const samples = { bullmq: [] as never[], signalbox: [] as never[] };
  try {
    for (let round = firstRound; round < (line.rounds ?? plan.rounds); round++) {
      // The profile of a line says nothing of how it began.
      if (round === 0) await Promise.all(sides.map(({ redis }) => redis.client.config('RESETSTAT')));
      for (const side of sides) {
        const sample = await line.measure(side, plan, round);
        if (round !== firstRound) samples[side.name].push(sample as never);
      }
    }
    const { profile } = options;
    if (profile) await Promise.all(sides.map((side) => side.profile(profile)));
  } finally {
    await Promise.all(sides.map((side) => side.stop()));
  }
  return resultsOf(line, samples, earlier);
}

function bounded<T>(work: Promise<T>, what: string, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${limitMs / 1000} s`)), limitMs);
  });
  return Promise.race([work, limit]).finally(() => clearTimeout(timer));
}

const versionOf = (name: string): string =>
  JSON.parse(readFileSync(new URL(`../../../node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;

function settings() {
  const [cpu] = cpus();
  return {
    at: new Date().toISOString(),
    cpu: `${cpus().length} × ${cpu?.model ?? '?'}`,
    node: process.version,
    bullmq: versionOf('bullmq'),
    ioredis: versionOf('ioredis'),
    redisFlags,
    daemonSettings,
    plan,
    kept: {
      bullmq: 'every finished job (removeOnComplete is off by default)',
      signalbox: 'every finished task with its result and history, and the log (1,000,000 events)',
    },
  };
}

async function main(): Promise<void> {
  if (options.help) return console.log(usage);
  const wanted = lines.filter(({ id, flag }) =>
    options.only ? options.only.some((name) => id === name) : flag === undefined || options[flag],
  );
  if (wanted.length === 0 || options.only?.some((name) => !lines.some(({ id }) => id === name))) throw new Error(usage);
  if (options.profile) mkdirSync(options.profile, { recursive: true });
  const results: Result[] = [];
  for (const line of wanted) {
    process.stderr.write(`${line.id} …\n`);
    results.push(...(await bounded(run(line, results), line.id, lineMaxMs(line))));
  }
  console.log(table(results));
  if (options.json) writeFileSync(options.json, `${JSON.stringify({ settings: settings(), results }, null, 2)}\n`);
}

main().then(
  () => process.exit(0),
  (error: Error) => {
    console.error(error.message);
    process.exit(1);
  },
);
