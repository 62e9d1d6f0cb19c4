import { writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { Actor, freeze } from './actor.js';
import { Agent } from './agent.js';
import { Ledger } from './calls.js';
import { choose } from './random.js';
import { settle } from './settle.js';
import type { Setting, Step } from './steps.js';
import { Watcher } from './watcher.js';
import { timing, World } from './world.js';

export interface Outcome {
  readonly problems: readonly string[];
  readonly events: number;
  readonly calls: number;
}

/** What a running history consists of. */
export interface Scene {
  readonly world: World;
  readonly ledger: Ledger;
  readonly agents: readonly Agent[];
  readonly watchers: readonly Watcher[];
  readonly setting: Setting;
  /** An agent on a link without faults, for what the test itself asks. */
  readonly clerk: Agent;
  readonly actor: Actor;
}

/** Runs one history on a world of its own: the steps, then the calm after them, then every check. */
export async function runHistory(setting: Setting, steps: readonly Step[]): Promise<Outcome> {
  const world = await World.start(setting);
  const ledger = new Ledger();
  const places = setting.agents.map((_, i) => i);
  const agents = setting.agents.map((options, i) => new Agent({ name: `agent-${i}`, ...options, ledger }));
  const actor = new Actor((agent) => world.url(places[agents.indexOf(agent)] ?? 0));
  const clerk = new Agent({ name: 'clerk', relay: false, ttlMs: 10_000, tenant: 't1', ledger });
  const patterns = [['>'], ['task.completed', 'task.dead', 'session.*', 'batch.>']];
  const watchers = Array.from(
    { length: setting.watchers },
    (_, i) => new Watcher(`watcher-${i}`, patterns[i % 2]!, () => world.url(i)),
  );
  const scene: Scene = { world, ledger, agents, watchers, setting, clerk, actor };
  try {
    await configure(scene);
    for (const watcher of watchers) watcher.start();
    const running: Promise<void>[] = [];
    const unended = new Set<(typeof steps)[number]>();
    for (const step of steps) {
      await wait(step.gapMs);
      unended.add(step);
      running.push(
        runStep(scene, step, places)
          .catch((error) => void world.problems.push(`step ${JSON.stringify(step)}: ${error}`))
          .finally(() => unended.delete(step)),
      );
    }
    // Calls end by their own time limit; a restart of Redis may take a moment.
    await Promise.race([Promise.all(running), wait(40_000)]);
    for (const step of unended) world.problems.push(`did not end within 40 s: ${JSON.stringify(step)}`);
    const problems = await settle(scene);
    if (process.env.SIM_DUMP) dump(scene, process.env.SIM_DUMP);
    return {
      problems: [...world.problems, ...problems],
      events: world.tap.standing.length,
      calls: ledger.calls.length,
    };
  } finally {
    for (const agent of [...agents, clerk]) agent.stop();
    for (const watcher of watchers) watcher.stop();
    await world.stop();
  }
}

/** Everything that was said and logged, for finding out what a failing history is about. */
function dump({ world, ledger, watchers }: Scene, file: string): void {
  const rows = [
    ...world.tap.eras.flatMap(({ events }) => events.map((event) => ({ t: event.at, event }))),
    ...ledger.calls.map((call) => ({ t: call.sentAt, call })),
    ...ledger.deliveries.map((delivery) => ({ t: delivery.at, delivery })),
  ].sort((a, b) => a.t - b.t);
  const records = watchers.map(({ name, record }) => ({ name, record }));
  const outputs = world.outputs();
  writeFileSync(file, [...rows, ...records, ...outputs].map((row) => JSON.stringify(row)).join('\n'));
}

/** The configuration of the queues goes with the data when Redis loses it. */
export async function configure({ world, clerk }: Scene): Promise<void> {
  const until = Date.now() + 20_000;
  for (;;) {
    const node = world.nodes.find(({ daemon }) => daemon);
    if (node?.daemon && (await clerk.ensure(node.daemon.url))) {
      const calls = await Promise.all(
        ['q1', 'q2'].map((queue) =>
          clerk.call('queue.configure', { queue, maxAttempts: timing.maxAttempts, keyWindowMs: timing.keyWindowMs }),
        ),
      );
      if (calls.every(({ ok }) => ok)) return;
    }
    if (Date.now() > until) throw new Error('the queues could not be configured within 20 s');
    await wait(50);
  }
}

async function runStep(scene: Scene, step: Step, places: number[]): Promise<void> {
  const { agents, actor, watchers, world } = scene;
  if (step.do === 'fault') return runFault(scene, step);
  if (step.do === 'watch') {
    const watcher = watchers[step.watcher]!;
    if (step.how === 'move') watcher.start(() => world.url(step.daemon));
    else watcher.leave(step.how);
    return;
  }
  const agent = agents[step.agent % agents.length]!;
  if (step.do === 'freeze') return freeze(agent, step.ms);
  if (step.do === 'move') {
    places[step.agent % agents.length] = step.daemon;
    // Without a word to the old socket: the newer binding must shut it out.
    agent.cut();
    return;
  }
  if (step.do === 'publish' && step.by === 'redis') {
    for (const event of step.events) {
      const cloud = event.id
        ? { specversion: '1.0', id: event.id, source: event.source, type: event.type, data: event.data }
        : event.data;
      const { type, data, id, source } = event;
      scene.ledger.said.push({ type, data, id, source, at: Date.now() });
      await world.admin.publish(`signalbox:default:${type}`, JSON.stringify(cloud));
    }
    return;
  }
  await actor.run(agent, step);
}

type Fault = Extract<Step, { do: 'fault' }>;

async function runFault(scene: Scene, { fault, at, ms, delayMs }: Fault): Promise<void> {
  const { world } = scene;
  const node = choose(world.nodes, at)!;
  const link = fault.startsWith('agent') ? node.toDaemon : node.toRedis;
  const forAWhile = async (begin: () => void): Promise<void> => {
    begin();
    await wait(ms);
    link.heal();
  };
  switch (fault) {
    case 'agentCut':
    case 'redisCut':
      return link.cut();
    case 'agentStallUp':
    case 'redisStallUp':
      return forAWhile(() => link.stall('up'));
    case 'agentStallDown':
    case 'redisStallDown':
      return forAWhile(() => link.stall('down'));
    case 'agentHole':
    case 'redisHole':
      return forAWhile(() => link.stall('up', 'down'));
    case 'agentSwallow':
    case 'redisSwallow':
      return link.swallowReply();
    case 'agentLose':
    case 'redisLose':
      link.lose();
      return;
    case 'agentDelay':
    case 'redisDelay':
      return forAWhile(() => link.delay(delayMs));
    default:
      return runProcessFault(scene, fault, node, ms);
  }
}

async function runProcessFault(
  scene: Scene,
  fault: Fault['fault'],
  node: World['nodes'][number],
  ms: number,
): Promise<void> {
  const { world } = scene;
  if (fault === 'daemonKill') {
    await world.killNode(node);
    await wait(ms);
    await world.startNode(node);
  } else if (fault === 'daemonStop') {
    await world.stopNode(node);
    await world.startNode(node);
  } else if (fault === 'daemonFreeze') {
    const { daemon } = node;
    daemon?.process.kill('SIGSTOP');
    await wait(ms);
    daemon?.process.kill('SIGCONT');
  } else if (fault === 'clientKill') {
    await world.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await world.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  } else if (fault === 'scriptFlush') await world.admin.script('FLUSH');
  else if (fault === 'clockAhead') await world.stepClock(8000);
  else if (fault === 'clockBack') await world.stepClock(-3000);
  else await world.alone(() => redisFault(scene, fault, ms));
}

async function redisFault(scene: Scene, fault: Fault['fault'], ms: number): Promise<void> {
  const { world } = scene;
  if (fault === 'redisKill') return world.killRedis(ms);
  if (fault === 'redisRestart') return world.redis.restart();
  if (fault === 'redisRewind') {
    await world.snapshot();
    await wait(ms);
  }
  await world.loseData(fault === 'redisWipe');
  await configure(scene);
}
