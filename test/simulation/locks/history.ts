import { fileURLToPath } from 'node:url';
import { Wire } from '../../support/wire.js';
import { leftIn } from '../agents/left.js';
import { absencesOf, counted, type Judged, Stage } from '../agents/stage.js';
import type { TapEvent } from '../tap.js';
import { type Held, type Line, overlapsOf, type Try, triesOf } from './held.js';
import { linearOf } from './linear.js';
import { fencesOf, replayed } from './log.js';
import { capacities, type Plan } from './plan.js';

/** And how often a lock was surely held. */
export interface Outcome extends Judged {
  readonly held: number;
}

const program = fileURLToPath(new URL('./agent.js', import.meta.url));

/** Runs a plan on a world of its own, then judges what agents and log say. */
export const runLocks = (plan: Plan): Promise<Outcome> => Stage.run<Line, Outcome>(plan, program, define, judge);

async function define(url: string): Promise<void> {
  const wire = await Wire.session(url, { agent: 'clerk' });
  for (const [name, capacity] of capacities) await wire.call('lock.define', { name, capacity });
  await wire.call('session.close');
  await wire.close();
}

async function judge(stage: Stage<Line>): Promise<Outcome> {
  const { tap } = stage.world;
  const left = await leftOf(stage);
  await tap.poll();
  const tries = stage.processes.flatMap(triesOf);
  const helds = tries.flatMap(({ held }) => held ?? []);
  const all = tap.eras.flatMap(({ events }) => events);
  const replay = replayed(tap.standing, capacities, [...stage.disturbances, ...absencesOf(all)]);
  const linear = linearOf(tries, all, capacities, stage.clock.read);
  const problems = [
    ...stage.faults(),
    ...left,
    ...overlapsOf(helds, capacities),
    ...fencesOf(all),
    ...replay.problems,
    ...linear.problems,
    ...unknownTo(helds, all),
    ...unexpected(tries, stage.flushed),
  ];
  for (const { grant, agent } of [...replay.held.values(), ...replay.waiting.values()]) {
    problems.push(`at the end ${agent}'s ${grant} is neither released nor lost`);
  }
  const grants = all.filter(({ type }) => type === 'lock.granted').length;
  const { ordered, unordered } = linear;
  const had = `${grants} grants, ${helds.length} surely held`;
  return { problems, had, held: helds.length, ends: counted(tries.map(({ how }) => how)), ordered, unordered };
}

/** No holder, no waiter, no clock, no record. */
const leftOf = ({ world }: Stage<Line>): Promise<string[]> =>
  leftIn(world, ['grant', 'lockHolds', 'lockBelow', 'held'], async (at) => {
    const { admin } = world;
    const rows = [await admin.zrange(`${at}lockWaits`, '0', '-1'), await admin.zrange(`${at}lockDue`, '0', '-1')];
    return rows.flat().map((row) => row.replaceAll('\0', '|'));
  });

/** Refusals that no fault explains. Without its definition a semaphore is none. */
function unexpected(tries: readonly Try[], flushed: boolean): string[] {
  const usual = ['done', 'given up', 'HELD', 'DEADLOCK', 'TIMEOUT', 'UNAVAILABLE', 'DRAINING', 'SESSION_LOST'];
  const losses = ['cannotRenew', 'sessionLost', 'leaseLapsed', 'maxHold', 'disconnected', 'revoked', 'staleFence'];
  const known = new Set([...usual, ...losses, ...(flushed ? ['KIND_MISMATCH', 'NEVER_FITS', 'neverFits'] : [])]);
  return tries
    .filter(({ how }) => how !== undefined && !known.has(how))
    .map(({ how, agent }) => `a round of ${agent} ended with ${how}`);
}

/** Nobody holds what was never given. */
function unknownTo(helds: readonly Held[], all: readonly TapEvent[]): string[] {
  const given = new Set(
    all.filter(({ type }) => type === 'lock.granted').map(({ data }) => `${data.grant} ${data.fence}`),
  );
  return helds
    .filter(({ grant, fence }) => !given.has(`${grant} ${fence}`))
    .map(({ agent, number, grant, fence }) => `${agent}#${number} holds ${grant} under ${fence}, which nobody gave`);
}
