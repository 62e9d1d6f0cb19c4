import { setTimeout as wait } from 'node:timers/promises';
import type { Agent } from './agent.js';
import type { Any, Call } from './calls.js';
import { choose } from './random.js';
import type { EndHow, Step } from './steps.js';

type StepOf<Name extends Step['do']> = Extract<Step, { do: Name }>;

/** Carries out the steps that an agent takes; what is to be referred to is chosen among what is known by then. */
export class Actor {
  /** Ids that anybody has tried to enqueue, with what was asked. */
  readonly asked: { readonly queue: string; readonly spec: Any }[] = [];
  readonly #url: (agent: Agent) => string;

  constructor(url: (agent: Agent) => string) {
    this.#url = url;
  }

  async run(agent: Agent, step: Step): Promise<void> {
    if (agent.process?.frozen) return;
    if (step.do === 'leave') return this.#leave(agent, step);
    if (!(await agent.ensure(this.#url(agent)))) return;
    const { do: name } = step;
    if (name === 'enqueue') await this.enqueue(agent, step.queue, step.tasks);
    else if (name === 'again') await this.#again(agent, step);
    else if (name === 'work') await agent.work(step);
    else if (name === 'credit') await this.#credit(agent, step);
    else if (name === 'claim') {
      const { queue, count, waitMs, kinds, leaseMs } = step;
      await agent.call('queue.claim', {
        queue,
        count,
        waitMs,
        ...(kinds ? { kinds } : {}),
        ...(leaseMs ? { leaseMs } : {}),
      });
    } else if (name === 'end') await this.#end(agent, step);
    else if (name === 'repeat') await this.#repeat(agent, step);
    else if (name === 'read') await this.#read(agent, step);
    else await this.#change(agent, step);
  }

  async enqueue(agent: Agent, queue: string, tasks: readonly Any[]): Promise<Call> {
    for (const spec of tasks) this.asked.push({ queue, spec });
    return agent.call('queue.enqueue', { queue, tasks });
  }

  async #again(agent: Agent, { pick, other }: StepOf<'again'>): Promise<void> {
    const found = choose(this.asked, pick);
    if (!found) return;
    // Another payload under the same id must never be taken for the same task.
    const payload = other ? { v: 2, of: found.spec.task } : found.spec.payload;
    await agent.call('queue.enqueue', { queue: found.queue, tasks: [{ ...found.spec, payload }] });
  }

  async #credit(agent: Agent, { pick, credit }: StepOf<'credit'>): Promise<void> {
    const row = choose([...agent.workers], pick);
    if (!row) return;
    const [worker, declared] = row;
    declared.credit = credit;
    const { ok } = await agent.call('queue.credit', { worker, credit });
    if (!ok) declared.sure = false;
  }

  async #end(agent: Agent, { pick, how, count, afterMs, next }: StepOf<'end'>): Promise<void> {
    if (how === 'zombie') {
      const past = choose(agent.past, pick);
      if (past)
        await agent.call('queue.complete', {
          tasks: [{ task: past.task, fence: past.fence, result: { zombie: true } }],
        });
      return;
    }
    const held = [...agent.held.values()];
    const first = Math.floor(pick * held.length);
    const some = held.slice(first, first + count);
    if (some.length === 0) return;
    const params = endParams(how, some, afterMs, next);
    if (next) for (const spec of next) this.asked.push({ queue: 'q2', spec });
    if (how === 'progress')
      await agent.call('queue.progress', { task: some[0]!.task, fence: some[0]!.fence, progress: { at: pick } });
    else if (how === 'renew')
      await agent.call('lease.renew', { leases: some.map(({ task, fence }) => ({ lease: `task:${task}`, fence })) });
    else await agent.call(opOf[how], params);
  }

  /** A client whose answer was lost asks again in the same words. */
  async #repeat(agent: Agent, { pick }: StepOf<'repeat'>): Promise<void> {
    const call = choose(agent.unsettled, pick);
    if (!call) return;
    agent.unsettled.splice(agent.unsettled.indexOf(call), 1);
    await agent.call(call.op, call.params);
  }

  async #read(agent: Agent, { pick, what }: StepOf<'read'>): Promise<void> {
    const found = choose(this.asked, pick);
    const queue = pick < 0.5 ? 'q1' : 'q2';
    if (what === 'ping') await agent.call('ping', {});
    else if (what === 'stats') await agent.call('queue.stats', pick < 0.3 ? {} : { queue });
    else if (what === 'leases') await agent.call('lease.list', {});
    else if (what === 'list') {
      const state = choose(['ready', 'scheduled', 'active', 'completed', 'dead', 'cancelled', 'expired'], pick)!;
      await agent.call('queue.list', { queue, state, limit: 1 + Math.floor(pick * 20) });
    } else if (found) {
      await agent.call(`queue.${what}`, {
        task: found.spec.task,
        ...(what === 'result' && pick > 0.5 ? { waitMs: 300 } : {}),
      });
    }
  }

  async #change(agent: Agent, step: Step): Promise<void> {
    if (step.do === 'pause')
      await agent.call('queue.pause', { queue: step.queue, ...(step.untilMs ? { untilMs: step.untilMs } : {}) });
    else if (step.do === 'unpause') await agent.call('queue.unpause', { queue: step.queue });
    else if (step.do === 'cancel') {
      const found = choose(this.asked, step.pick);
      if (found)
        await agent.call('queue.cancel', {
          task: found.spec.task,
          ...(step.graceMs === undefined ? {} : { graceMs: step.graceMs }),
        });
    } else if (step.do === 'update') {
      const found = choose(this.asked, step.pick);
      const { runIn, ...change } = step.change;
      if (runIn !== undefined) change.runAt = new Date(Date.now() + runIn).toISOString();
      if (found) await agent.call('queue.update', { task: found.spec.task, ...change });
    } else if (step.do === 'purge' || step.do === 'redrive') await this.#bulk(agent, step);
    else if (step.do === 'revoke') await this.#revoke(agent, step);
    else if (step.do === 'publish') await agent.call('feed.publish', { events: step.events });
  }

  async #bulk(agent: Agent, step: StepOf<'purge' | 'redrive'>): Promise<void> {
    const state = step.state ? { state: step.state } : {};
    if (step.pick !== undefined) {
      const found = choose(this.asked, step.pick);
      if (found) await agent.call(`queue.${step.do}`, { queue: step.queue, tasks: [found.spec.task], ...state });
      return;
    }
    let cursor: string | undefined;
    for (let page = 0; page < 10; page++) {
      const call = await agent.call(`queue.${step.do}`, { queue: step.queue, ...state, ...(cursor ? { cursor } : {}) });
      cursor = call.ok?.cursor;
      if (!cursor) return;
    }
  }

  async #revoke(agent: Agent, { pick, what }: StepOf<'revoke'>): Promise<void> {
    if (what === 'session' && agent.session) {
      await agent.call('lease.revoke', { lease: `session:${agent.session.id}`, reason: 'by hand' });
      return;
    }
    const found = choose(this.asked, pick);
    if (found) await agent.call('lease.revoke', { lease: `task:${found.spec.task}`, reason: 'by hand' });
  }

  async #leave(agent: Agent, { how }: StepOf<'leave'>): Promise<void> {
    if (how === 'cut') agent.cut();
    else if (how === 'kill') agent.kill();
    else if (how === 'close') agent.close();
    else if (agent.connected) await agent.closeSession();
  }
}

const opOf: Record<Exclude<EndHow, 'zombie' | 'progress' | 'renew'>, string> = {
  complete: 'queue.complete',
  completeAndEnqueue: 'queue.complete',
  fail: 'queue.fail',
  failForGood: 'queue.fail',
  release: 'queue.release',
};

function endParams(
  how: EndHow,
  held: readonly { task: string; fence: number }[],
  afterMs: number | undefined,
  next: readonly Any[] | undefined,
): Any {
  const after = afterMs === undefined ? {} : { afterMs };
  const tasks = held.map(({ task, fence }) => {
    if (how === 'complete' || how === 'completeAndEnqueue') return { task, fence, result: { of: task, fence } };
    if (how === 'fail') return { task, fence, error: { message: 'no luck' }, ...after };
    if (how === 'failForGood') return { task, fence, error: { message: 'hopeless', code: 'E' }, retry: false };
    return { task, fence, reason: 'busy', ...after, saved: { by: fence } };
  });
  return { tasks, ...(next ? { enqueue: [{ queue: 'q2', tasks: next }] } : {}) };
}

/** Lets an agent's process stand still for a while. One without a process of its own cannot. */
export async function freeze(agent: Agent, ms: number): Promise<void> {
  const { process } = agent;
  if (!process || process.frozen) return;
  process.freeze();
  await wait(ms);
  process.thaw();
}
