import { setTimeout as wait } from 'node:timers/promises';
import { Wire } from '../../support/wire.js';
import { FaultyLink } from '../faults.js';
import type { TapEvent } from '../tap.js';
import { type Node, namespace, World } from '../world.js';
import { type Held, overlapsOf } from './held.js';
import { type Disturbance, fencesOf, replayed } from './log.js';
import { type AgentPlan, capacities, type Fault, type Plan, ttlDefaultMs } from './plan.js';
import { AgentProcess } from './process.js';

export interface Outcome {
  readonly problems: readonly string[];
  /** How often a lock was surely held, granted, and ended in which way. */
  readonly held: number;
  readonly grants: number;
  readonly ends: ReadonlyMap<string, number>;
}

/** After something was done to an agent it may be away for so long: back-off, resume, a new session. */
const echoMs = 3000;
/** Every wait and hold of a plan ends by itself within this, with all links whole. */
const finishMs = 25_000;

/** One place in the cast: the process of the moment and its own link. */
interface Seat {
  readonly plan: AgentPlan;
  readonly link: FaultyLink;
  node: number;
  process: AgentProcess;
  /** Killed, and not yet followed by the next one. */
  empty: boolean;
}

/** Runs a plan on a world of its own, then judges what agents and log say. */
export async function runLocks(plan: Plan): Promise<Outcome> {
  const setting = { daemons: plan.daemons, agents: [], watchers: 0, refundsMax: 3, eventsMax: 1_000_000 };
  const world = await World.start(setting, { 'session.ttlMs': ttlDefaultMs });
  const play = new Play(world);
  try {
    await play.define();
    for (const agent of plan.agents) await play.seat(agent);
    await wait(500);
    for (const fault of plan.faults) {
      await wait(fault.gapMs);
      await play.fault(fault);
    }
    await play.finish();
    return await play.judge();
  } finally {
    await play.stop();
    await world.stop();
  }
}

class Play {
  readonly #world: World;
  readonly #seats: Seat[] = [];
  readonly #processes: AgentProcess[] = [];
  readonly #disturbances: Disturbance[] = [];
  readonly #problems: string[] = [];
  readonly #later: Promise<unknown>[] = [];
  #flushed = false;

  constructor(world: World) {
    this.#world = world;
  }

  async define(): Promise<void> {
    const wire = await Wire.session(this.#world.url(0), { agent: 'clerk' });
    for (const [name, capacity] of capacities) await wire.call('lock.define', { name, capacity });
    await wire.call('session.close');
    await wire.close();
  }

  async seat(plan: AgentPlan): Promise<void> {
    const node = this.#seats.length;
    const link = await FaultyLink.open(this.#portOf(node));
    this.#seats.push({ plan, link, node, process: this.#start(plan, link), empty: false });
  }

  #start(plan: AgentPlan, link: FaultyLink): AgentProcess {
    const process = new AgentProcess(plan, `ws://127.0.0.1:${link.port}/v1/ws`);
    this.#processes.push(process);
    return process;
  }

  #nodeOf(number: number): Node {
    const { nodes } = this.#world;
    return nodes[number % nodes.length]!;
  }
  #portOf = (number: number): number => this.#nodeOf(number).toDaemon.port;

  /** Whatever is done lasts for `ms` at most and is over by itself. */
  async fault({ name, number, ms }: Fault): Promise<void> {
    const seat = this.#seats[number % this.#seats.length]!;
    const node = this.#nodeOf(number);
    const to = Date.now() + ms + echoMs;
    const one = ['freeze', 'killAgent', 'cutAgent', 'loseAgent', 'move'].includes(name);
    this.#disturbances.push({ agent: one ? seat.plan.name : undefined, from: Date.now(), to });
    const done = this.#do(name, seat, node, ms).catch((error) => void this.#problems.push(`${name}: ${error}`));
    this.#later.push(done);
    // What is done to Redis itself is done alone.
    if (name === 'killRedis' || name === 'flush') await done;
  }

  async #do(name: Fault['name'], seat: Seat, node: Node, ms: number): Promise<void> {
    const world = this.#world;
    if (name === 'freeze')
      await paused(
        () => seat.process.freeze(),
        ms,
        () => seat.process.thaw(),
      );
    else if (name === 'killAgent') await this.#replace(seat, ms);
    else if (name === 'cutAgent') seat.link.cut();
    else if (name === 'loseAgent')
      await paused(
        () => seat.link.stall('up', 'down'),
        ms,
        () => seat.link.heal(),
      );
    else if (name === 'move') {
      seat.link.target = this.#portOf(++seat.node);
      seat.link.cut();
    } else if (name === 'killDaemon' || name === 'stopDaemon') {
      await (name === 'killDaemon' ? world.killNode(node) : world.stopNode(node));
      await wait(ms);
      await world.startNode(node);
    } else if (name === 'freezeDaemon') {
      const { daemon } = node;
      await paused(
        () => daemon?.process.kill('SIGSTOP'),
        ms,
        () => daemon?.process.kill('SIGCONT'),
      );
    } else if (name === 'cutRedis') node.toRedis.cut();
    else if (name === 'stallRedis')
      await paused(
        () => node.toRedis.stall('up', 'down'),
        ms,
        () => node.toRedis.heal(),
      );
    else if (name === 'killRedis') await world.alone(() => world.killRedis(Math.min(ms, 300)));
    else await this.#flush();
  }

  async #replace(seat: Seat, ms: number): Promise<void> {
    if (seat.empty) return;
    seat.empty = true;
    await seat.process.kill();
    await wait(ms);
    seat.process = this.#start(seat.plan, seat.link);
    seat.empty = false;
  }

  /** Everything is lost, the definitions too; they are made anew at once. */
  async #flush(): Promise<void> {
    this.#flushed = true;
    await this.#world.alone(async () => {
      await this.#world.tap.poll();
      await this.#world.admin.flushall();
    });
    for (let tries = 0; ; tries++) {
      try {
        return await this.define();
      } catch (error) {
        if (tries === 50) throw error;
        await wait(100);
      }
    }
  }

  async finish(): Promise<void> {
    await Promise.all(this.#later);
    await this.#world.heal();
    for (const { link } of this.#seats) link.heal();
    await Promise.all(
      this.#seats.map(async ({ process, plan }) => {
        if (await process.finish(finishMs)) return;
        this.#problems.push(`${plan.name} did not finish within ${finishMs} ms: ${process.said}`);
      }),
    );
  }

  async judge(): Promise<Outcome> {
    const { tap } = this.#world;
    await this.#empty();
    await tap.poll();
    const helds = this.#processes.flatMap((process) => process.helds);
    const ends = new Map<string, number>();
    for (const process of this.#processes) {
      for (const [how, count] of process.ends) ends.set(how, (ends.get(how) ?? 0) + count);
      if (process.said) this.#problems.push(`${process.plan.name} wrote: ${process.said}`);
    }
    const all = tap.eras.flatMap(({ events }) => events);
    const replay = replayed(tap.standing, capacities, [...this.#disturbances, ...absencesOf(all)]);
    this.#problems.push(
      ...this.#world.problems,
      ...this.#world.faults(),
      ...tap.problems,
      ...overlapsOf(helds, capacities),
      ...fencesOf(all),
      ...replay.problems,
      ...unknownTo(helds, all),
      ...this.#unexpected(ends),
    );
    for (const { grant, agent } of [...replay.held.values(), ...replay.waiting.values()]) {
      this.#problems.push(`at the end ${agent}'s ${grant} is neither released nor lost`);
    }
    const grants = all.filter(({ type }) => type === 'lock.granted').length;
    return { problems: this.#problems, held: helds.length, grants, ends };
  }

  /** With everybody gone nothing is left: no holder, no waiter, no clock, no record. */
  async #empty(): Promise<void> {
    const { admin } = this.#world;
    const at = `sb:{${namespace}}:`;
    let left: string[] = [];
    // Killed agents end with their ttl.
    for (const until = Date.now() + 10_000; Date.now() < until; await wait(50)) {
      const keys = await admin.keys(`${at}*`);
      const kept = keys.filter((key) => /:(grant|lockHolds|lockBelow|held):/.test(key));
      const ttls = await Promise.all(kept.map((key) => admin.pttl(key)));
      const rows = [await admin.zrange(`${at}lockWaits`, '0', '-1'), await admin.zrange(`${at}lockDue`, '0', '-1')];
      left = [...kept.filter((_, i) => ttls[i] === -1), ...rows.flat().map((row) => row.replaceAll('\0', '|'))];
      if (left.length === 0) return;
    }
    this.#problems.push(`left at the end: ${left.slice(0, 10).join(', ')}`);
  }

  /** Refusals that no fault explains. Without its definition a semaphore is none. */
  #unexpected(ends: ReadonlyMap<string, number>): string[] {
    const usual = ['done', 'given up', 'HELD', 'DEADLOCK', 'TIMEOUT', 'UNAVAILABLE', 'DRAINING', 'SESSION_LOST'];
    const losses = ['cannotRenew', 'sessionLost', 'leaseLapsed', 'maxHold', 'disconnected', 'revoked', 'staleFence'];
    const known = new Set([
      ...usual,
      ...losses,
      ...(this.#flushed ? ['KIND_MISMATCH', 'NEVER_FITS', 'neverFits'] : []),
    ]);
    return [...ends.keys()].filter((how) => !known.has(how)).map((how) => `a round ended with ${how}`);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.alive && process.kill()));
    await Promise.all(this.#seats.map(({ link }) => link.close()));
  }
}

async function paused(begin: () => unknown, ms: number, end: () => unknown): Promise<void> {
  begin();
  await wait(ms);
  end();
}

/** A busy machine can cut somebody off as well: who lost or resumed a session was away just before. */
function absencesOf(all: readonly TapEvent[]): Disturbance[] {
  return all
    .filter(({ type }) => type === 'session.lost' || type === 'session.resumed')
    .map(({ data, at }) => ({ agent: data.agent, from: at - echoMs, to: at }));
}

/** Nobody holds what was never given. */
function unknownTo(helds: readonly Held[], all: readonly TapEvent[]) {
  const given = new Set(
    all.filter(({ type }) => type === 'lock.granted').map(({ data }) => `${data.grant} ${data.fence}`),
  );
  return helds
    .filter(({ grant, fence }) => !given.has(`${grant} ${fence}`))
    .map(({ agent, number, grant, fence }) => `${agent}#${number} holds ${grant} under ${fence}, which nobody gave`);
}
