import { setTimeout as wait } from 'node:timers/promises';
import { checkInvariants } from '../../src/ops/invariants.js';
import type { Agent } from './agent.js';
import type { Any, Call } from './calls.js';
import { compare } from './compare.js';
import type { Scene } from './history.js';
import { Model } from './model.js';
import { judgeRecord } from './oracle.js';
import { checkPublished } from './published.js';
import { checkReplies } from './replies.js';
import { namespace, timing } from './world.js';

const queues = ['q1', 'q2'];
/** Daemons must have found back to Redis, and agents to their daemons, this long after the last fault. */
const backMs = 20_000;
/** From then on everything must come to an end within this: ttl, grace, back-off and sweeps are all shorter. */
const calmMs = 9000;

/** The calm after the steps: faults end, agents finish what they hold, and then everything is checked. */
export async function settle(scene: Scene): Promise<string[]> {
  const { world, agents, ledger } = scene;
  const problems: string[] = [];
  await world.heal();
  for (const agent of agents) agent.process?.thaw();
  const left = await workOff(scene);
  problems.push(...left);
  await world.tap.poll();
  const model = new Model(ledger, { ...timing, refundsMax: scene.setting.refundsMax }, world.lostAt);
  model.run(world.tap.standing);
  problems.push(
    ...world.faults(),
    ...world.tap.problems,
    ...world.tap.checkHead(),
    ...ledger.problems,
    ...model.problems,
  );
  problems.push(...fencesRise(scene), ...checkReplies(ledger, model, world.lostAt));
  problems.push(...(await published(scene)));
  problems.push(...(await invariants(scene)));
  if (left.length === 0) problems.push(...(await compare(scene, model)));
  problems.push(...(await checkWatchers(scene)));
  if (left.length === 0) problems.push(...(await atRest(scene)), ...(await invariants(scene)));
  return problems;
}

/** What `signalbox doctor` would say of it. */
async function invariants({ world }: Scene): Promise<string[]> {
  const { findings } = await checkInvariants(world.admin, namespace, { lateMs: 3000 });
  return findings.map(({ message }) => `doctor: ${message}`);
}

/** Agents come back, take nothing more, and complete what they hold; one clerk does the rest. */
async function workOff(scene: Scene): Promise<string[]> {
  const { world, agents, clerk } = scene;
  const url = world.nodes[0]!.daemon!.url;
  // Whoever still waits for an answer on a dead link gives it up first.
  const back = Date.now() + backMs;
  if (!(await retry(() => clerk.ensure(url), back))) return ['the clerk could not connect'];
  for (const queue of queues) {
    const unpaused = await carriedOut(() => clerk.call('queue.unpause', { queue }), back);
    if (!unpaused) return [`the clerk could not unpause ${queue} within ${backMs} ms after the last fault`];
  }
  const rest = agents.map((agent) => ({ agent, back: retry(() => agent.ensure(url), back) }));
  await Promise.all(rest.map(({ back }) => back));
  const waiting = await idleBesideWork(scene);
  await Promise.all(rest.map(({ agent }) => stopTaking(agent)));
  const until = Date.now() + calmMs;
  for (;;) {
    await serve(clerk);
    await Promise.all([...agents, clerk].map((agent) => finishHeld(agent, url)));
    const open = await unfinished(clerk);
    if (open.length === 0) return waiting;
    if (Date.now() > until)
      return [`not finished ${calmMs} ms after the last fault: ${JSON.stringify(open).slice(0, 3000)}`];
    await wait(50);
  }
}

/** A daemon may not have noticed yet that its link to Redis died in the last fault: then its client has to ask again. */
const carriedOut = (ask: () => Promise<Call>, until: number): Promise<boolean> =>
  retry(async () => (await ask()).ok !== undefined, until);

/** With a session that went with the data its workers went, too; and what was refused is asked again. */
async function serve(clerk: Agent): Promise<void> {
  for (const [name, { sure }] of clerk.workers) if (!sure) clerk.workers.delete(name);
  for (const queue of queues) {
    const serves = [...clerk.workers.values()].some((worker) => worker.queue === queue);
    if (!serves) await clerk.work({ queue, credit: 100 });
  }
}

async function stopTaking(agent: Agent): Promise<void> {
  for (const [worker, declared] of agent.workers) {
    declared.credit = 0;
    await agent.call('queue.credit', { worker, credit: 0 });
  }
}

/** Longest that a ready task may wait while a worker that serves it has nothing to do. */
const idleMs = 2000;

async function idleBesideWork({ world, agents, clerk }: Scene): Promise<string[]> {
  const since = new Map<string, number>();
  const until = Date.now() + backMs;
  for (;;) {
    // Asked anew every time: with a session that is lost meanwhile its workers go, too.
    const workers = agents.flatMap((agent) => [...agent.workers].map(([name, worker]) => ({ agent, name, worker })));
    const ready: Any[] = [];
    for (const queue of queues) {
      const listed = await carriedOut(async () => {
        await clerk.ensure(clerk.url);
        const call = await clerk.call('queue.list', { queue, state: 'ready' });
        ready.push(...(call.ok?.tasks ?? []));
        return call;
      }, until);
      if (!listed) return [`the clerk could not list what is ready in ${queue} within ${backMs} ms`];
    }
    // A resume tells an agent what it holds, not which worker of it was meant: the log does.
    const claims = world.tap.standing.filter(({ own, type }) => own && type === 'task.claimed');
    const workerOf = new Map<number, string>(claims.map(({ data }) => [data.fence, data.worker]));
    const seen = new Set<string>();
    const deaf = new Set<string>();
    for (const { agent } of workers) if (agent.connected && !(await isReady(agent.url))) deaf.add(agent.url);
    for (const task of ready) {
      const idle = workers.find(({ agent, name, worker }) => {
        if (deaf.has(agent.url)) return false;
        const held = [...agent.held.values()].filter(({ fence }) => workerOf.get(fence) === name).length;
        const serves = worker.queue === task.queue && (!worker.kinds || worker.kinds.includes(task.kind ?? ''));
        return serves && agent.connected && worker.sure && worker.credit > held;
      });
      if (!idle) continue;
      const place = `${task.task} ${idle.name}`;
      seen.add(place);
      const from = since.get(place) ?? Date.now();
      since.set(place, from);
      if (Date.now() - from > idleMs)
        return [`${task.task} is ready for ${idleMs} ms although worker ${idle.name} has nothing to do`];
    }
    for (const place of [...since.keys()]) if (!seen.has(place)) since.delete(place);
    if (since.size === 0 && deaf.size === 0) return [];
    if (deaf.size > 0 && Date.now() > until) return [`${[...deaf]} is not ready ${backMs} ms after the last fault`];
    await wait(50);
  }
}

/** A daemon whose link to Redis is still dead says so itself; what it cannot give meanwhile is not held against it. */
async function isReady(url: string): Promise<boolean> {
  try {
    const page = url.replace(/^ws/, 'http').replace(/\/v1\/ws$/, '/readyz');
    return (await fetch(page, { signal: AbortSignal.timeout(1000) })).ok;
  } catch {
    return false;
  }
}

async function retry(run: () => Promise<boolean>, until: number): Promise<boolean> {
  while (!(await run())) {
    if (Date.now() > until) return false;
    await wait(100);
  }
  return true;
}

async function finishHeld(agent: Agent, url: string): Promise<void> {
  if (!(await agent.ensure(url)) || agent.held.size === 0) return;
  const tasks = [...agent.held.values()].map(({ task, fence }) => ({ task, fence, result: { settled: true } }));
  await agent.call('queue.complete', { tasks });
}

async function unfinished(clerk: Agent): Promise<Any[]> {
  const open: Any[] = [];
  for (const queue of queues) {
    for (const state of ['ready', 'scheduled', 'active']) {
      const call = await clerk.call('queue.list', { queue, state });
      if (!call.ok) open.push({ queue, state, error: call.error });
      else open.push(...call.ok.tasks);
    }
  }
  return open;
}

/** Over everything that ever was, lost or not: a fence that was given can never be given again. */
function fencesRise({ world }: Scene): string[] {
  let highest = 0;
  for (const { events } of world.tap.eras) {
    for (const { own, type, data, offset } of events) {
      if (!own) continue;
      const fence = type === 'task.claimed' ? data.fence : type === 'session.resumed' ? data.binding : undefined;
      if (fence === undefined) continue;
      if (fence <= highest) return [`fence ${fence} at ${offset} does not rise above ${highest}, given before`];
      highest = fence;
    }
  }
  return [];
}

/** Another daemon may first have to find out that the one which appended is gone: its lease lasts 3 s. */
async function published({ world, ledger }: Scene): Promise<string[]> {
  let problems = checkPublished(ledger, world.tap.standing, world.lostAt);
  for (let i = 0; i < 60 && problems.length > 0; i++) {
    await wait(100);
    await world.tap.poll();
    problems = checkPublished(ledger, world.tap.standing, world.lostAt);
  }
  return problems;
}

async function checkWatchers({ world, watchers, setting }: Scene): Promise<string[]> {
  const problems: string[] = [];
  const url = world.url(0);
  for (const watcher of watchers) if (!watcher.subscribed) watcher.start(() => url);
  const gaps = [
    ...(setting.eventsMax < 10_000 ? ['trimmed'] : []),
    ...(world.lostAt > 0 ? ['fork', 'reset', 'trimmed'] : []),
  ];
  for (const watcher of watchers) {
    const judge = () => judgeRecord(watcher.record, world.tap.epochs, { wants: watcher.wants, gaps });
    let verdict = judge();
    for (let i = 0; i < 40 && verdict.problems.some((problem) => problem.startsWith('the record ends')); i++) {
      await wait(100);
      await world.tap.poll();
      verdict = judge();
    }
    problems.push(...watcher.problems, ...verdict.problems.map((problem) => `${watcher.name}: ${problem}`));
  }
  return problems;
}

/** Keys that stay while a namespace exists; the page of src/redis/keys.ts says why. */
const lasting = /^(meta|log|logIndex|epochs|published|publishedAt|ingress|daemons|queues|queue:q[12])$/;

/** With all tasks removed and all sessions closed nothing of them is left in Redis. */
async function atRest({ world, agents, clerk }: Scene): Promise<string[]> {
  for (const agent of agents) await agent.closeSession();
  let left: string[] = [];
  // More than once: a task whose key window ends meanwhile changes its set. Sessions nobody came back for have their ttl.
  for (let i = 0; i < 60; i++) {
    const refused = await purgeAll(clerk);
    if (refused) return [`purge at rest: ${refused}`];
    const keys = await world.admin.keys('sb:{default}:*');
    left = keys
      .map((key) => key.slice('sb:{default}:'.length))
      .filter((key) => !lasting.test(key) && !/^counts:/.test(key));
    // The end of the grace after the last epoch is as far away as the longest session was to live.
    const graceOnly = String(await world.admin.zrange('sb:{default}:lockDue', '0', '-1')) === 'g';
    if (graceOnly) left = left.filter((key) => key !== 'lockDue');
    left = left.filter((key) => key !== 'sessions' && key !== 'sessionNames' && key !== `session:${clerk.session?.id}`);
    if (left.length === 0) break;
    await wait(100);
  }
  await clerk.closeSession();
  for (const key of ['sessions', 'sessionNames', 'ending', 'grace'])
    if (await world.admin.exists(`sb:{default}:${key}`)) left.push(key);
  if (left.length > 0) return [`keys at rest: ${left.join(', ')}`];
  return countsLeft(world.admin);
}

async function purgeAll(clerk: Agent): Promise<string | undefined> {
  for (const queue of queues) {
    for (const state of ['completed', 'dead', 'cancelled', 'expired']) {
      let cursor: string | undefined;
      do {
        const call = await clerk.call('queue.purge', { queue, state, ...(cursor ? { cursor } : {}) });
        if (!call.ok) return JSON.stringify(call.error ?? 'no answer');
        cursor = call.ok.cursor;
      } while (cursor);
    }
  }
  return undefined;
}

async function countsLeft(admin: Scene['world']['admin']): Promise<string[]> {
  const problems: string[] = [];
  for (const queue of queues) {
    const fields = Object.keys(await admin.hgetall(`sb:{default}:counts:${queue}`)).filter(
      (field) => !/^r[ecf]:/.test(field),
    );
    if (fields.length > 0) problems.push(`counters of ${queue} at rest: ${fields.join(', ')}`);
  }
  return problems;
}
