import { parseArgs } from 'node:util';
import { scenarios } from '../faults/all.js';
import { drawHistory } from './draw.js';
import { runHistory } from './history.js';
import { runLimits } from './limits/history.js';
import { drawPlan as drawLimitPlan } from './limits/plan.js';
import { runLocks } from './locks/history.js';
import { drawPlan } from './locks/plan.js';
import { shrink } from './shrink.js';
import type { Step } from './steps.js';

const usage = `npm run sim -- [--seed N] [--steps N] [--minutes M] [--only 3,17,40] [--no-faults] [--no-shrink]
npm run sim -- --locks|--limits [--seed N] [--steps N] [--minutes M] [--no-faults]
npm run sim -- --full [--scenario Q1,F14] [--minutes M]

--locks: agents in processes of their own take locks by the client while --steps things go wrong.
--limits: the same, and they spend from limits and act under once keys.
Without --minutes one history is run; with it, one after the other until the time is over, from --seed upwards.
--full runs the scenarios of test/faults at their original lengths first (an hour), then histories for --minutes.`;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    steps: { type: 'string' },
    minutes: { type: 'string' },
    only: { type: 'string' },
    'no-faults': { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false },
    locks: { type: 'boolean', default: false },
    limits: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    scenario: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

if (values.help) {
  console.log(usage);
  process.exit(0);
}

const cast = values.locks ? 'locks' : values.limits ? 'limits' : undefined;
const steps = Number(values.steps ?? (cast ? 20 : 120));
const options = { faults: !values['no-faults'] };
const first = values.seed === undefined ? Math.floor(Math.random() * 1e9) : Number(values.seed);

async function run(seed: number, kept?: readonly number[]): Promise<readonly string[]> {
  const history = drawHistory(seed, steps, options);
  const chosen = kept ? kept.map((i) => history.steps[i]).filter((step) => step !== undefined) : history.steps;
  const startedAt = performance.now();
  const { problems, events, calls } = await runHistory(history.setting, chosen);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(
    `seed ${seed}: ${chosen.length} steps, ${calls} calls, ${events} events, ${seconds} s: ${problems.length === 0 ? 'holds' : `${problems.length} problems`}`,
  );
  return problems;
}

/** Not a list of steps that could be cut down: agents go their own way, and their plans are drawn whole. */
async function runCast(seed: number): Promise<readonly string[]> {
  const startedAt = performance.now();
  const drawn = { faults: options.faults ? steps : 0 };
  const played = cast === 'locks' ? await runLocks(drawPlan(seed, drawn)) : await runLimits(drawLimitPlan(seed, drawn));
  const { problems, had, ends, ordered, unordered } = played;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  const verdict = problems.length === 0 ? 'holds' : `${problems.length} problems`;
  const counts = [...ends].map(([how, count]) => `${how} ${count}`).join(', ');
  console.log(`seed ${seed}: ${had}, ${ordered} in order (${unordered} given up), ${seconds} s: ${verdict}; ${counts}`);
  for (const problem of problems.slice(0, 25)) console.log(`  - ${problem}`);
  return problems;
}

function show(step: Step, number: number): string {
  return `${String(number).padStart(4)}  ${JSON.stringify(step)}`;
}

async function report(seed: number, problems: readonly string[]): Promise<void> {
  for (const problem of problems.slice(0, 25)) console.log(`  - ${problem}`);
  if (values['no-shrink']) return;
  const history = drawHistory(seed, steps, options);
  console.log('cutting it down …');
  const kept = await shrink(history.steps.length, async (some) => (await run(seed, some)).length > 0, {
    tries: 2,
    runsMax: 120,
  });
  console.log(`\nWhat is left (${kept.length} steps):`);
  for (const number of kept) console.log(show(history.steps[number]!, number));
  for (const problem of await run(seed, kept)) console.log(`  - ${problem}`);
  console.log(
    `\nAgain: npm run sim -- --seed ${seed} --steps ${steps} --only ${kept.join(',')}${values['no-faults'] ? ' --no-faults' : ''}`,
  );
}

/** The scenarios at full length; answers the ones that did not hold. */
async function runScenarios(): Promise<string[]> {
  const wanted = values.scenario?.split(',');
  const broken: string[] = [];
  for (const { id, title, full } of scenarios) {
    if (wanted && !wanted.includes(id)) continue;
    const startedAt = performance.now();
    const seconds = (): string => `${Math.round((performance.now() - startedAt) / 1000)} s`;
    try {
      console.log(`${id}: ${title}\n    ${await full()} (${seconds()})`);
    } catch (error) {
      broken.push(id);
      console.log(`${id}: ${title}\n    FAILED after ${seconds()}: ${error instanceof Error ? error.message : error}`);
    }
  }
  console.log(broken.length === 0 ? 'all scenarios hold' : `scenarios that do not hold: ${broken.join(', ')}`);
  return broken;
}

const broken = values.full ? await runScenarios() : [];
if (values.full && values.minutes === undefined) process.exit(broken.length === 0 ? 0 : 1);
const only = values.only?.split(',').map(Number);
const until = performance.now() + Number(values.minutes ?? 0) * 60_000;
const failed: number[] = [];
let seed = first;
do {
  const problems = cast ? await runCast(seed) : await run(seed, only);
  if (problems.length > 0) {
    failed.push(seed);
    if (cast) console.log(`Again: npm run sim -- --${cast} --seed ${seed} --steps ${steps}`);
    else if (only) for (const problem of problems) console.log(`  - ${problem}`);
    else await report(seed, problems);
  }
  seed++;
} while (performance.now() < until);
console.log(failed.length === 0 ? `seeds ${first} to ${seed - 1} hold` : `failed: ${failed.join(', ')}`);
process.exit(failed.length + broken.length === 0 ? 0 : 1);
