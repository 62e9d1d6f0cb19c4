import { setTimeout as wait } from 'node:timers/promises';
import type { Settings } from '../../support/daemon.js';
import { FaultyLink } from '../faults.js';
import type { TapEvent } from '../tap.js';
import { type Node, World } from '../world.js';
import { LogClock } from './clock.js';
import type { Fault } from './faults.js';
import { type AgentPlan, AgentProcess, type Said } from './process.js';

/** When something was done to an agent, or to what stands between it and the store, by the clock of the log. */
export interface Disturbance {
  /** All of them, if it is not named. */
  readonly agent: string | undefined;
  readonly from: number;
  readonly to: number;
}

/** One place in the cast: the process of the moment and its own link. */
interface Seat<Line extends Said> {
  readonly plan: AgentPlan;
  readonly link: FaultyLink;
  node: number;
  process: AgentProcess<Line>;
  /** Killed, and not yet followed by the next one. */
  empty: boolean;
}

/** A cast of agents and what goes wrong, as a plan says it. */
export interface Play {
  readonly daemons: number;
  readonly agents: readonly AgentPlan[];
  readonly faults: readonly Fault[];
}

/** What a judge says of a play. */
export interface Judged {
  readonly problems: readonly string[];
  /** What the agents had, in words. */
  readonly had: string;
  /** How their calls ended, counted. */
  readonly ends: ReadonlyMap<string, number>;
  /** Operations whose order was looked for, and those whose search was given up. */
  readonly ordered: number;
  readonly unordered: number;
}

export function counted(hows: readonly (string | undefined)[]): ReadonlyMap<string, number> {
  const ends = new Map<string, number>();
  for (const how of hows) if (how !== undefined) ends.set(how, (ends.get(how) ?? 0) + 1);
  return ends;
}

/** After something was done to an agent it may be away for so long: back-off, resume, a new session. */
export const echoMs = 3000;
/** Every wait and hold of a plan ends by itself within this, with all links whole. */
const finishMs = 25_000;
/** Sessions live so long unless they say otherwise: also the least grace after a loss. */
export const ttlDefaultMs = 900;

/** Agents in processes of their own, each behind its own link, on a world that fails as the plan says. */
export class Stage<Line extends Said> {
  readonly world: World;
  readonly processes: AgentProcess<Line>[] = [];
  readonly disturbances: Disturbance[] = [];
  readonly problems: string[] = [];
  readonly clock = new LogClock();
  flushed = false;
  readonly #program: string;
  readonly #define: (url: string) => Promise<void>;
  readonly #seats: Seat<Line>[] = [];
  readonly #later: Promise<unknown>[] = [];

  private constructor(world: World, program: string, define: (url: string) => Promise<void>) {
    this.world = world;
    this.#program = program;
    this.#define = define;
  }

  /** Plays it to its end and lets `judge` look at what is left. `define` makes what the agents use. */
  static async run<Line extends Said, Outcome>(
    { daemons, agents, faults }: Play,
    program: string,
    define: (url: string) => Promise<void>,
    judge: (stage: Stage<Line>) => Promise<Outcome>,
    more: Settings = {},
  ): Promise<Outcome> {
    const setting = { daemons, agents: [], watchers: 0, refundsMax: 3, eventsMax: 1_000_000 };
    const world = await World.start(setting, { 'session.ttlMs': ttlDefaultMs, ...more });
    const stage = new Stage<Line>(world, program, define);
    try {
      await define(world.url(0));
      for (const agent of agents) await stage.#seat(agent);
      // They are to have met before anything goes wrong.
      await wait(1500);
      for (const fault of faults) {
        await wait(fault.gapMs);
        await stage.#fault(fault);
      }
      await stage.#finish();
      return await judge(stage);
    } finally {
      await stage.#stop();
      await world.stop();
    }
  }

  async #seat(plan: AgentPlan): Promise<void> {
    const node = this.#seats.length;
    const link = await FaultyLink.open(this.#portOf(node));
    this.#seats.push({ plan, link, node, process: this.#start(plan, link), empty: false });
  }

  #start(plan: AgentPlan, link: FaultyLink): AgentProcess<Line> {
    const process = new AgentProcess<Line>(this.#program, plan, `ws://127.0.0.1:${link.port}/v1/ws`);
    this.processes.push(process);
    return process;
  }

  #nodeOf(number: number): Node {
    const { nodes } = this.world;
    return nodes[number % nodes.length]!;
  }
  #portOf = (number: number): number => this.#nodeOf(number).toDaemon.port;

  /** Whatever is done lasts for `ms` at most and is over by itself. */
  async #fault({ name, number, ms }: Fault): Promise<void> {
    const seat = this.#seats[number % this.#seats.length]!;
    const node = this.#nodeOf(number);
    const to = Date.now() + ms + echoMs;
    const one = ['freeze', 'killAgent', 'cutAgent', 'loseAgent', 'move'].includes(name);
    this.disturbances.push({ agent: one ? seat.plan.name : undefined, from: Date.now(), to });
    const done = this.#do(name, seat, node, ms).catch((error) => void this.problems.push(`${name}: ${error}`));
    this.#later.push(done);
    // What is done to Redis itself is done alone.
    if (name === 'killRedis' || name === 'flush') await done;
  }

  async #do(name: Fault['name'], seat: Seat<Line>, node: Node, ms: number): Promise<void> {
    const { world } = this;
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

  async #replace(seat: Seat<Line>, ms: number): Promise<void> {
    if (seat.empty) return;
    seat.empty = true;
    await seat.process.kill();
    await wait(ms);
    seat.process = this.#start(seat.plan, seat.link);
    seat.empty = false;
  }

  /** Everything is lost, the definitions too; they are made anew at once. */
  async #flush(): Promise<void> {
    this.flushed = true;
    await this.world.alone(async () => {
      await this.world.tap.poll();
      await this.world.admin.flushall();
    });
    for (let tries = 0; ; tries++) {
      try {
        return await this.#define(this.world.url(0));
      } catch (error) {
        if (tries === 50) throw error;
        await wait(100);
      }
    }
  }

  async #finish(): Promise<void> {
    await Promise.all(this.#later);
    await this.world.heal();
    for (const { link } of this.#seats) link.heal();
    await Promise.all(
      this.#seats.map(async ({ process, plan }) => {
        if (await process.finish(finishMs)) return;
        this.problems.push(`${plan.name} did not finish within ${finishMs} ms: ${process.said}`);
      }),
    );
  }

  /** What the processes themselves complained of, and every fault that the world, its log and its daemons show. */
  faults(): string[] {
    const said = this.processes.filter(({ said }) => said).map(({ plan, said }) => `${plan.name} wrote: ${said}`);
    return [...this.problems, ...said, ...this.world.problems, ...this.world.faults(), ...this.world.tap.problems];
  }

  async #stop(): Promise<void> {
    this.clock.stop();
    await Promise.all(this.processes.map((process) => process.alive && process.kill()));
    await Promise.all(this.#seats.map(({ link }) => link.close()));
  }
}

async function paused(begin: () => unknown, ms: number, end: () => unknown): Promise<void> {
  begin();
  await wait(ms);
  end();
}

/** A busy machine can cut somebody off as well: who lost or resumed a session was away just before. */
export function absencesOf(all: readonly TapEvent[]): Disturbance[] {
  return all
    .filter(({ type }) => type === 'session.lost' || type === 'session.resumed')
    .map(({ data, at }) => ({ agent: data.agent, from: at - echoMs, to: at }));
}
