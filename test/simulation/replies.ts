import { type Any, type Call, isUnknown, type Ledger } from './calls.js';
import type { Model } from './model.js';
import type { Moment } from './state.js';

/** Refusals that a well-behaved caller may meet, by op; any other code is a finding. */
const refusals: Record<string, readonly string[]> = {
  'session.open': ['SESSION_LOST', 'CONFLICT'],
  'queue.enqueue': ['LIMIT'],
  'queue.complete': ['CONFLICT'],
  'queue.cancel': ['NOT_FOUND'],
  'queue.update': ['NOT_FOUND', 'CONFLICT'],
  'queue.get': ['NOT_FOUND'],
  'queue.result': ['NOT_FOUND'],
  'queue.progress': ['STALE_FENCE', 'NOT_FOUND'],
  'queue.credit': ['NOT_FOUND'],
  'queue.purge': ['INVALID'],
  'lease.revoke': ['NOT_FOUND'],
};
const always = ['SESSION_LOST', 'NO_SESSION', 'DRAINING'];
/** Clocks of two processes of one machine, rounded to milliseconds. */
const slackMs = 3;

/**
 * What callers were told, held against what was so between their asking and their hearing. Calls from before a loss of
 * data are left out: what they were promised is gone, as announced.
 */
export function checkReplies(ledger: Ledger, model: Model, lostAt: number): string[] {
  const problems: string[] = [];
  for (const call of ledger.calls) {
    if (call.error?.code === 'INTERNAL') problems.push(`INTERNAL: ${describe(call)}`);
    if (isUnknown(call) || call.sentAt <= lostAt) continue;
    if (call.error && ![...always, ...(refusals[call.op] ?? [])].includes(call.error.code))
      problems.push(`refused: ${describe(call)}`);
    const check = checks[call.op];
    const say = (text: string): void => void problems.push(`${text}: ${describe(call)}`);
    if (check) check(call, new Window(model, call), say);
  }
  for (const problem of checkDeliveries(ledger, model, lostAt)) problems.push(problem);
  return problems;
}

function describe({ agent, op, params, ok, error, sentAt, doneAt }: Call): string {
  return `${agent} ${op} ${JSON.stringify(params).slice(0, 300)} → ${JSON.stringify(ok ?? error).slice(0, 400)} (sent ${sentAt}, +${doneAt - sentAt} ms)`;
}

/** How things stood while a call was on its way. */
class Window {
  readonly model: Model;
  readonly from: number;
  readonly to: number;

  constructor(model: Model, call: Call) {
    this.model = model;
    this.from = call.sentAt - slackMs;
    this.to = call.doneAt + slackMs;
  }

  /** Every way the task stood; `undefined` stands for not being there. */
  moments(task: string): (Moment | undefined)[] {
    const all = this.model.timelines.get(task) ?? [];
    const found: (Moment | undefined)[] = [];
    if (!all[0] || all[0].at >= this.from) found.push(undefined);
    all.forEach((moment, i) => {
      const ends = all[i + 1]?.at ?? Number.POSITIVE_INFINITY;
      if (moment.at <= this.to && ends >= this.from) found.push(moment.state === 'removed' ? undefined : moment);
    });
    return found;
  }

  some(task: string, fits: (moment: Moment | undefined) => boolean): boolean {
    return this.moments(task).some(fits);
  }

  /** A step into `state` was made within the window. */
  entered(task: string, state: string): boolean {
    return (this.model.timelines.get(task) ?? []).some(
      (moment) => moment.state === state && moment.at >= this.from && moment.at <= this.to,
    );
  }

  has(task: string, state: string): boolean {
    return this.some(task, (moment) => moment?.state === state);
  }
}

type Say = (text: string) => void;

function enqueued(spec: Any, item: Any, window: Window, say: Say): void {
  if (item.error) {
    enqueueRefused(spec, item.error.code, window, say);
    return;
  }
  if (!item.deduplicated) {
    if (item.task !== spec.task) say(`another id than asked for, ${item.task}`);
    if (!window.entered(spec.task, item.state)) say('acknowledged, but not in the log');
    return;
  }
  if (!window.has(item.task, item.state)) say(`deduplicated as ${item.state}, which ${item.task} was not`);
  const twin = window.model.tasks.get(item.task);
  const same = twin?.candidates.filter(
    (candidate) => JSON.stringify(candidate.spec.payload) === JSON.stringify(spec.payload),
  );
  if (!twin || !same || same.length === 0) say(`taken for ${item.task}, which has another payload`);
  else {
    if (item.task !== spec.task && twin.key !== spec.key) say(`taken for ${item.task}, which has another key`);
    twin.candidates = same;
  }
}

function enqueueRefused(spec: Any, code: string, window: Window, say: Say): void {
  if (code === 'CONFLICT' && !window.some(spec.task, (moment) => moment !== undefined))
    say('CONFLICT, but there was no such task');
  else if (code === 'KEY_CONFLICT' && !spec.key) say('KEY_CONFLICT without a key');
  else if (code !== 'CONFLICT' && code !== 'KEY_CONFLICT') say(`item refused with ${code}`);
}

/** An answer about a fence: its holder had it, or it was not so any more. */
function settled(outcomes: readonly string[]) {
  return ({ params, ok, session }: Call, window: Window, say: Say): void => {
    if (!ok) return;
    params.tasks.forEach(({ task, fence }: Any, i: number) => {
      const item = ok.tasks[i];
      const known = window.model.attempts.get(fence);
      if (item.error) {
        const { code } = item.error;
        if (code === 'NOT_FOUND' && !window.some(task, (moment) => moment === undefined))
          say(`NOT_FOUND, but ${task} was there`);
        const stillHeld = (moment: Moment | undefined): boolean =>
          moment?.state === 'active' && moment.fence === fence && moment.session === session;
        // Stale at every moment of the window, or a session that had run out: then it was given back in the same step.
        if (code === 'STALE_FENCE' && window.moments(task).every(stillHeld))
          say(`STALE_FENCE, but ${task} was held under ${fence} throughout`);
        if (code === 'CONFLICT' && !params.enqueue) say('CONFLICT without anything to withhold');
        return;
      }
      const outcome = known?.outcomes.get(fence);
      if (!outcome) say(`acknowledged ${item.state}, but nothing ended ${task} under ${fence}`);
      else if (!outcomes.includes(outcome.outcome) && outcome.state !== '')
        say(`answered ${item.state}, ${task} under ${fence} ended ${outcome.outcome}`);
    });
  };
}

const checks: Record<string, (call: Call, window: Window, say: Say) => void> = {
  'queue.enqueue': ({ params, ok }, window, say) => {
    for (const [i, spec] of (ok ? params.tasks : []).entries()) enqueued(spec, ok.tasks[i], window, say);
  },
  'queue.complete': (call, window, say) => {
    settled(['completed'])(call, window, say);
    const { params, ok } = call;
    if (!ok || !params.enqueue) return;
    const refused = ok.tasks.some((item: Any) => item.error);
    params.enqueue.forEach(({ tasks }: Any, g: number) => {
      tasks.forEach((spec: Any, i: number) => {
        const item = ok.enqueued[g].tasks[i];
        if (!item.error) {
          if (refused) say('enqueued although a completion was refused');
          // Repeated after a lost reply it is found again.
          if (!item.deduplicated) enqueued(spec, item, window, say);
        }
      });
    });
  },
  'queue.fail': settled(['failed']),
  'queue.release': settled(['released', 'undelivered', 'drained']),
  'queue.cancel': ({ params, ok, error }, window, say) => {
    if (ok && !window.has(params.task, ok.state)) say(`answered ${ok.state}, which the task was not`);
    if (error?.code === 'NOT_FOUND' && !window.some(params.task, (moment) => moment === undefined))
      say('NOT_FOUND, but it was there');
  },
  'queue.get': ({ params, ok, error }, window, say) => {
    if (error?.code === 'NOT_FOUND' && !window.some(params.task, (moment) => moment === undefined))
      say('NOT_FOUND, but it was there');
    if (ok && !window.has(params.task, ok.state)) say(`shown as ${ok.state}, which it was not`);
  },
  'queue.result': ({ params, ok, error }, window, say) => {
    if (error?.code === 'NOT_FOUND' && !window.some(params.task, (moment) => moment === undefined))
      say('NOT_FOUND, but it was there');
    if (ok && !window.has(params.task, ok.state)) say(`answered ${ok.state}, which it was not`);
  },
  'queue.list': ({ params, ok }, window, say) => {
    for (const { task, state } of ok?.tasks ?? []) {
      if (state !== params.state || !window.has(task, state)) say(`lists ${task} as ${state}`);
    }
  },
};

/** What agents were handed was claimed for them, once, as it was stored. */
function checkDeliveries(ledger: Ledger, model: Model, lostAt: number): string[] {
  const problems: string[] = [];
  const seen = new Set<number>();
  for (const { agent, session, worker, task, at } of ledger.deliveries) {
    const told = `${agent} got ${task.task} under ${task.fence} as ${worker || 'a claim'}`;
    if (seen.has(task.fence)) problems.push(`${told} a second time`);
    seen.add(task.fence);
    if (at <= lostAt + 2000 && lostAt > 0) continue;
    const known = model.attempts.get(task.fence);
    const moment = model.timelines
      .get(task.task)
      ?.find(({ fence, state }) => state === 'active' && fence === task.fence);
    if (!known || !moment) problems.push(`${told}, but no such claim is in the log`);
    else {
      if (moment.session !== session) problems.push(`${told}, but it was claimed for session ${moment.session}`);
      const fitting = known.candidates.filter(
        ({ spec }) => JSON.stringify(spec.payload) === JSON.stringify(task.payload),
      );
      if (fitting.length === 0)
        problems.push(`${told} with a payload that nobody enqueued: ${JSON.stringify(task.payload)}`);
      else if (known.state !== 'removed') known.candidates = fitting;
    }
  }
  return problems;
}
