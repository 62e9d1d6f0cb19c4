import { fileURLToPath } from 'node:url';
import { Wire } from '../../support/wire.js';
import { leftIn } from '../agents/left.js';
import { counted, type Judged, Stage } from '../agents/stage.js';
import { granted, type Usage, usageOf } from './judge.js';
import { keysOf } from './keys.js';
import { definitions, type Plan } from './plan.js';
import { actsOf, type Line, spendsOf, type Try, triesOf } from './tries.js';
import { replayed } from './waits.js';

/** And how many reservations and keys the agents had. */
export interface Outcome extends Judged {
  readonly granted: number;
  readonly begun: number;
}

const program = fileURLToPath(new URL('./agent.js', import.meta.url));

/** Runs a plan on a world of its own, then judges what agents, log and limits say. */
export const runLimits = (plan: Plan): Promise<Outcome> =>
  Stage.run<Line, Outcome>(plan, program, define, judge, { 'limit.rampMs': 400 });

async function define(url: string): Promise<void> {
  const wire = await Wire.session(url, { agent: 'clerk' });
  for (const [name, definition] of Object.entries(definitions))
    await wire.call('limit.define', { name, ...definition });
  await wire.call('session.close');
  await wire.close();
}

async function judge(stage: Stage<Line>): Promise<Outcome> {
  const { tap } = stage.world;
  const clock = stage.clock.read;
  const left = await leftOf(stage);
  await tap.poll();
  const tries = stage.processes.flatMap(triesOf);
  const [spends, acts] = [spendsOf(tries), actsOf(tries)];
  const all = tap.standing;
  const log = replayed(all);
  const keys = keysOf(acts, all, clock);
  const limits = granted(spends, log.told, clock);
  const usage = await limitsOf(stage.world.url(0));
  const reservations = spends.filter(({ had }) => had).length;
  const begun = acts.filter(({ had }) => had).length;
  return {
    problems: [
      ...stage.faults(),
      ...left,
      ...log.problems,
      ...limits.problems,
      ...usageOf(usage, spends, log.told),
      ...keys.problems,
      ...unexpected(tries),
    ],
    had: `${reservations} reservations, ${begun} once keys begun`,
    granted: reservations,
    begun,
    ends: counted(tries.map(({ how }) => how)),
    ordered: keys.ordered + limits.ordered,
    unordered: keys.unordered + limits.unordered,
  };
}

async function limitsOf(url: string): Promise<Usage[]> {
  const wire = await Wire.session(url, { agent: 'clerk' });
  const { limits } = await wire.call('limit.list');
  await wire.close();
  return limits;
}

/** Nobody holds or waits: neither in a queue nor on a clock. */
const leftOf = ({ world }: Stage<Line>): Promise<string[]> =>
  leftIn(world, ['reservation', 'limitWaits', 'limitFair', 'held'], async (at, keys) => {
    const { admin } = world;
    const states = keys.filter((key) => key.startsWith(`${at}once:`)).map((key) => admin.hget(key, 'state'));
    const acting = (await Promise.all(states)).filter((state) => state === 'inProgress');
    return [...(await admin.zrange(`${at}limitDue`, '0', '-1')), ...acting.map(() => 'a once key in progress')];
  });

/** Refusals that no fault explains. */
function unexpected(tries: readonly Try[]): string[] {
  const ours = ['done', 'failed', 'lost', 'final', 'retryable', 'unknown', 'given up'];
  const usual = ['LIMITED', 'HELD', 'TIMEOUT', 'UNAVAILABLE', 'DRAINING', 'SESSION_LOST'];
  const losses = ['cannotRenew', 'sessionLost', 'leaseLapsed', 'disconnected', 'revoked', 'staleFence', 'cancelled'];
  const known = new Set([...ours, ...usual, ...losses]);
  return tries
    .filter(({ how }) => how !== undefined && !known.has(how))
    .map(({ how, agent, round }) => `a round of ${agent} ended with ${how}: ${JSON.stringify(round)}`);
}
