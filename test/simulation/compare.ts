import type { Any } from './calls.js';
import type { Scene } from './history.js';
import type { Model } from './model.js';
import type { ModelTask } from './state.js';

const states = ['ready', 'scheduled', 'active', 'completed', 'dead', 'cancelled', 'expired'] as const;

/** What the model says by the log alone against what the daemon reads from its records, sets and counters. */
export async function compare({ clerk }: Scene, model: Model): Promise<string[]> {
  const problems: string[] = [];
  const here = [...model.tasks.values()].filter(({ state }) => state !== 'removed');
  for (const queue of ['q1', 'q2']) {
    const own = here.filter((task) => task.queue === queue);
    for (const state of states) {
      const expected = own.filter((task) => task.state === state).map(({ id }) => id);
      const listed = await listAll(clerk, queue, state);
      if (!listed) problems.push(`${queue} ${state} could not be listed`);
      else problems.push(...difference(`${queue} ${state}`, expected, listed));
    }
    const stats = (await clerk.call('queue.stats', { queue })).ok?.queues[0];
    for (const state of states) {
      const expected = own.filter((task) => task.state === state).length;
      if (stats?.states[state] !== expected)
        problems.push(`stats of ${queue} say ${stats?.states[state]} ${state}, the log ${expected}`);
    }
    for (const [name, sum] of [
      ['bands', sumOf(Object.values(stats?.bands ?? {}))],
      ['kinds', sumOf(stats?.kinds.map((row: Any) => row.waiting + row.active))],
    ] as const) {
      const waiting = own.filter(({ state }) => state === 'ready' || (name === 'kinds' && state === 'active')).length;
      if (sum !== waiting) problems.push(`${name} of ${queue} add up to ${sum}, the log says ${waiting}`);
    }
  }
  for (const task of here) problems.push(...(await compareTask(clerk, task)));
  return problems;
}

const sumOf = (numbers: readonly Any[] | undefined): number =>
  (numbers ?? []).reduce((sum: number, value) => sum + value, 0);

async function listAll(clerk: Scene['clerk'], queue: string, state: string): Promise<string[] | undefined> {
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const { ok } = await clerk.call('queue.list', { queue, state, ...(cursor ? { cursor } : {}) });
    if (!ok) return undefined;
    found.push(...ok.tasks.map(({ task }: Any) => task));
    cursor = ok.cursor;
  } while (cursor);
  return found;
}

function difference(what: string, expected: readonly string[], found: readonly string[]): string[] {
  const missing = expected.filter((id) => !found.includes(id));
  const extra = found.filter((id) => !expected.includes(id));
  const problems: string[] = [];
  if (missing.length > 0) problems.push(`${what}: ${missing.join(', ')} should be there by the log`);
  if (extra.length > 0) problems.push(`${what}: ${extra.join(', ')} should not be there by the log`);
  return problems;
}

async function compareTask(clerk: Scene['clerk'], task: ModelTask): Promise<string[]> {
  const { ok, error } = await clerk.call('queue.get', { task: task.id });
  if (!ok) return [`queue.get ${task.id}: ${JSON.stringify(error)}`];
  const problems: string[] = [];
  const same = (field: string, expected: unknown): void => {
    if (JSON.stringify(ok[field]) !== JSON.stringify(expected))
      problems.push(`${task.id} has ${field} ${JSON.stringify(ok[field])}, by the log ${JSON.stringify(expected)}`);
  };
  same('state', task.state);
  same('queue', task.queue);
  same('tenant', task.tenant);
  same('priority', task.priority);
  same('attempt', task.attempt);
  same('refunds', task.refunds);
  same('maxAttempts', task.maxAttempts);
  same('kind', task.kind === '' ? undefined : task.kind);
  same('key', task.key === '' ? undefined : task.key);
  if (task.state === 'completed') same('fence', task.fence);
  if (!task.candidates.some(({ spec }) => JSON.stringify(spec.payload) === JSON.stringify(ok.payload))) {
    problems.push(
      `${task.id} has payload ${JSON.stringify(ok.payload)}, which is not what was asked for or seen before`,
    );
  }
  const attempts = ok.history.map(({ fence }: Any) => fence);
  if (attempts.some((fence: number, i: number) => i > 0 && fence <= attempts[i - 1]))
    problems.push(`${task.id}: fences of its history do not rise`);
  return problems;
}
