import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Contestant } from './contestant.js';
import { daemonSettings, root } from './daemon.js';
import { firstRound, type Line, type Plan, type Sample } from './line.js';
import { lines } from './lines.js';
import { plans } from './plan.js';
import { redisFlags } from './redis-server.js';
import { type Result, resultsOf, table } from './report.js';
import { type Name, rivals } from './side.js';

/**
 * `npm run bench`: Signalbox through its socket beside BullMQ, redlock and rate-limiter-flexible in process and beside a
 * raw server of ws, in one run and taking turns, each with a redis-server of its own started with the same flags. What a side keeps of
 * finished work is the same too: all of it.
 */
const { values: options } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
    smoke: { type: 'boolean', default: false },
    million: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    tasks: { type: 'string' },
    json: { type: 'string' },
    profile: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const usage = `npm run bench -- [--only <line>]… [--quick|--smoke] [--million] [--rounds n] [--tasks n] [--json file] [--profile dir]
lines: ${lines.map(({ id }) => id).join(' ')}`;

const size = plans[options.smoke ? 'smoke' : options.quick ? 'quick' : 'full'];
const plan: Plan = {
  ...size,
  load: { ...size.load, tasks: Number(options.tasks ?? size.load.tasks) },
  rounds: Number(options.rounds ?? size.rounds),
};

/** No line takes longer than this, whatever hangs; putting a million tasks there alone takes its time. */
const lineMaxMs = (line: Line): number => (line.flag === 'million' ? 1_200_000 : 300_000);

async function run(line: Line, earlier: readonly Result[]): Promise<Result[]> {
  const both: readonly Name[] = [rivals[line.subject], 'signalbox'];
  const names = both.filter(isInstalled);
  const sides = await Promise.all(names.map((name) => Contestant.start(name, line.subject, options.profile)));
  const samples = new Map<Name, Sample[]>(names.map((name) => [name, []]));
  const rounds = Math.min(line.rounds ?? plan.rounds, plan.rounds);
  try {
    for (let round = line.warmUp === false ? 0 : firstRound; round < rounds; round++) {
      // The profile of a line says nothing of how it began.
      if (round === 0) await Promise.all(sides.map((side) => side.beginProfile()));
      for (const side of sides) {
        const sample = await line.measure(side, plan, round);
        if (round !== firstRound) samples.get(side.name)!.push(sample);
      }
    }
    const { profile } = options;
    if (profile) await Promise.all(sides.map((side) => side.profile(profile)));
  } finally {
    await Promise.all(sides.map((side) => side.stop()));
  }
  return resultsOf(line, Object.fromEntries(samples), earlier);
}

function bounded<T>(work: Promise<T>, what: string, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${limitMs / 1000} s`)), limitMs);
  });
  return Promise.race([work, limit]).finally(() => clearTimeout(timer));
}

const packageJson = (name: string): string => join(root, 'node_modules', name, 'package.json');
const isInstalled = (name: string): boolean => name === 'signalbox' || existsSync(packageJson(name));
const versionOf = (name: string): string =>
  isInstalled(name) ? JSON.parse(readFileSync(packageJson(name), 'utf8')).version : 'not installed';

function settings() {
  const [cpu] = cpus();
  return {
    at: new Date().toISOString(),
    cpu: `${cpus().length} × ${cpu?.model ?? '?'}`,
    node: process.version,
    bullmq: versionOf('bullmq'),
    redlock: versionOf('redlock'),
    'rate-limiter-flexible': versionOf('rate-limiter-flexible'),
    ws: versionOf('ws'),
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
