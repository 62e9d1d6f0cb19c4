import type { Model } from './model.js';
import { before, type ModelTask, type TaskState } from './state.js';
import type { TapEvent } from './tap.js';
import * as ends from './task-ends.js';

/** One event of a task: is it a step that the contract allows, and what does it change? */
export function apply(model: Model, event: TapEvent): void {
  const { type, data } = event;
  if (type === 'task.enqueued') {
    enqueued(model, event);
    return;
  }
  const task = model.tasks.get(data.task);
  const step = steps[type];
  if (!task || task.state === 'removed' || !step) {
    model.problem(step ? 'a task that is not there' : 'an event type the model does not know');
    return;
  }
  if (task.queue !== data.queue || task.tenant !== data.tenant || task.kind !== (data.kind ?? '')) {
    model.problem(
      `names ${data.queue}/${data.tenant}/${data.kind}, the task is of ${task.queue}/${task.tenant}/${task.kind}`,
    );
  }
  step(model, task, event);
  model.moment(task);
}

const steps: Record<string, (model: Model, task: ModelTask, event: TapEvent) => void> = {
  'task.ready': dueCame,
  'task.claimed': claimed,
  'task.progressed': progressed,
  'task.updated': updated,
  'task.redriven': redriven,
  'task.cancelRequested': ends.cancelRequested,
  'task.released': ends.released,
  'task.retried': ends.retried,
  'task.completed': ends.completed,
  'task.dead': ends.dead,
  'task.cancelled': ends.cancelled,
  'task.expired': ends.expired,
  'task.removed': ends.removed,
};

function enqueued(model: Model, { data, at }: TapEvent): void {
  const before = model.tasks.get(data.task);
  if (before && before.state !== 'removed') model.problem(`enqueued again while it is ${before.state}`);
  const candidates = model.candidatesFor(data.task, at).filter(({ queue }) => queue === data.queue);
  const [first] = candidates;
  if (!first) {
    model.problem('nobody asked for this task');
    return;
  }
  const { spec } = first;
  const task: ModelTask = {
    id: data.task,
    queue: data.queue,
    tenant: data.tenant,
    kind: data.kind ?? '',
    key: spec.key ?? '',
    enqueuedAt: at,
    maxAttempts: spec.maxAttempts ?? model.rules.maxAttempts,
    timeoutMs: spec.timeoutMs,
    ownLeaseMs: spec.leaseMs,
    candidates,
    state: data.state,
    priority: data.priority,
    seq: undefined,
    attempt: 0,
    refunds: 0,
    fence: 0,
    session: '',
    worker: '',
    leaseMs: undefined,
    claimedAt: 0,
    renewedAt: 0,
    claimedEver: false,
    dueAt: data.runAt === undefined ? 0 : Date.parse(data.runAt),
    startBy: spec.startByMs === undefined ? undefined : at + spec.startByMs,
    deadline: spec.deadlineMs === undefined ? undefined : at + spec.deadlineMs,
    ending: undefined,
    endedAt: 0,
    outcomes: new Map(),
  };
  model.tasks.set(task.id, task);
  if (data.priority !== (spec.priority ?? 50)) model.problem(`priority ${data.priority}, asked for ${spec.priority}`);
  const due = spec.delayMs ? at + spec.delayMs : undefined;
  if ((due === undefined) !== (data.state === 'ready')) model.problem(`is ${data.state}, with delayMs ${spec.delayMs}`);
  if (due !== undefined && task.dueAt !== due) model.problem(`due at ${task.dueAt}, asked for ${due}`);
  takeKey(model, task, at);
  if (task.state === 'ready') toReady(model, task);
  model.moment(task);
}

function takeKey(model: Model, task: ModelTask, at: number): void {
  if (task.key === '') return;
  const keys = model.queue(task.queue).keys;
  const holder = keys.get(task.key);
  const windowOver = holder?.state === 'completed' && holder.endedAt + model.rules.keyWindowMs <= at;
  if (holder && holder !== task && !windowOver)
    model.problem(`key ${task.key} is held by ${holder.id} (${holder.state})`);
  keys.set(task.key, task);
}

/** Into the ready set; a newcomer among the tenants starts at the queue's present time. */
export function toReady(model: Model, task: ModelTask): void {
  const queue = model.queue(task.queue);
  task.state = 'ready';
  task.seq ??= ++queue.seq;
  queue.ready.add(task);
  if ((queue.tenants.get(task.tenant) ?? -1) < queue.vtime) queue.tenants.set(task.tenant, queue.vtime);
}

export function fromReady(model: Model, task: ModelTask): void {
  model.queue(task.queue).ready.delete(task);
}

function dueCame(model: Model, task: ModelTask, { at }: TapEvent): void {
  if (task.state !== 'scheduled') model.problem(`became ready while ${task.state}`);
  if (at < task.dueAt) model.problem(`ready ${task.dueAt - at} ms before it was due`);
  toReady(model, task);
}

/** Kinds of the want that was served: known for a declared worker, one of several for a claim call. */
function kindsOf(model: Model, { session, worker }: { session: string; worker?: string }, queue: string, at: number) {
  const sets: (readonly string[] | undefined)[] = [];
  for (const { op, params, session: of, sentAt } of model.ledger.calls) {
    if (of !== session || sentAt > at + 2) continue;
    const fits = worker
      ? op === 'queue.work' && params.worker === worker
      : op === 'queue.claim' && params.queue === queue;
    if (fits) sets.push(params.kinds);
  }
  return sets;
}

function claimed(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  const queue = model.queue(task.queue);
  if (task.state !== 'ready') model.problem(`claimed while ${task.state} (fence ${task.fence})`);
  if (queue.paused && !(queue.pausedUntil !== undefined && queue.pausedUntil <= at))
    model.problem('claimed while paused');
  if (task.deadline !== undefined && task.deadline <= at) model.problem('claimed past its deadline');
  if (task.startBy !== undefined && !task.claimedEver && task.startBy <= at)
    model.problem('first claimed past its startBy');
  if (data.attempt !== task.attempt + 1) model.problem(`attempt ${data.attempt} after ${task.attempt}`);
  model.rises(data.fence);
  const session = model.sessions.get(data.session);
  if (!session || session.endedAt !== undefined)
    model.problem(`claimed by session ${data.session}, which ${session ? 'has ended' : 'never was'}`);
  inOrder(model, task, data, at);
  withinCredit(model, data, task, at);
  fromReady(model, task);
  const start = queue.tenants.get(task.tenant) ?? queue.vtime;
  queue.vtime = Math.max(queue.vtime, start);
  queue.tenants.set(task.tenant, start + 1);
  task.state = 'active';
  task.attempt = data.attempt;
  task.fence = data.fence;
  task.session = data.session;
  task.worker = data.worker ?? '';
  task.leaseMs = task.ownLeaseMs ?? leastLease(model, data, task.queue);
  task.claimedAt = at;
  task.renewedAt = at;
  task.claimedEver = true;
  model.attempts.set(data.fence, task);
}

/** The lease a worker or a claim call gives; the shortest where it is not known which call was served. */
function leastLease(
  model: Model,
  { session, worker }: { session: string; worker?: string },
  queue: string,
): number | undefined {
  let least: number | undefined;
  for (const { op, params, session: of } of model.ledger.calls) {
    if (of !== session || params.leaseMs === undefined) continue;
    const fits = worker
      ? op === 'queue.work' && params.worker === worker
      : op === 'queue.claim' && params.queue === queue;
    if (fits) least = Math.min(least ?? Number.POSITIVE_INFINITY, params.leaseMs);
  }
  return least;
}

/** Strict priority and exact FIFO within a tenant; between tenants nobody is served ahead of one that is behind. */
function inOrder(model: Model, task: ModelTask, data: { session: string; worker?: string }, at: number): void {
  const { ready, tenants } = model.queue(task.queue);
  const sets = kindsOf(model, data, task.queue, at);
  if (sets.length === 0) {
    model.problem('claimed for a worker that was never declared');
    return;
  }
  let passed: string | undefined;
  for (const kinds of sets) {
    const serves = (other: ModelTask): boolean => kinds === undefined || kinds.includes(other.kind);
    if (!serves(task)) {
      passed ??= `kind ${task.kind} is not served`;
      continue;
    }
    const candidates = [...ready].filter(serves);
    const ahead = candidates.find((other) => other !== task && other.tenant === task.tenant && before(other, task));
    const own = tenants.get(task.tenant) ?? 0;
    const behind = candidates.find((other) => (tenants.get(other.tenant) ?? 0) + 1 < own);
    if (ahead) passed = `${ahead.id} of the same tenant stands ahead`;
    else if (behind)
      passed = `tenant ${behind.tenant} (${tenants.get(behind.tenant)}) is behind ${task.tenant} (${own})`;
    else return;
  }
  model.problem(`out of order: ${passed}`);
}

/** Not two tasks for one credit, whatever replies were lost. */
function withinCredit(
  model: Model,
  { session, worker }: { session: string; worker?: string },
  task: ModelTask,
  at: number,
): void {
  if (!worker) return;
  let most = 0;
  for (const call of model.ledger.calls) {
    if (call.session !== session || call.params.worker !== worker) continue;
    if (call.op === 'queue.work' || call.op === 'queue.credit') most = Math.max(most, call.params.credit);
  }
  let active = 1;
  for (const other of model.tasks.values()) {
    if (other === task || other.state !== 'active' || other.session !== session || other.worker !== worker) continue;
    if (!saidDone(model, other, at)) active++;
  }
  if (active > most) model.problem(`${active} tasks at once for worker ${worker} of credit ${most}`);
}

/** Its holder has handed it in: the credit is free although the step may still be on its way. */
function saidDone(model: Model, { id, fence }: ModelTask, at: number): boolean {
  return model.ledger.about(id).some(({ op, params, ok, sentAt, doneAt }) => {
    if (!['queue.complete', 'queue.fail', 'queue.release'].includes(op) || sentAt > at) return false;
    const i = params.tasks.findIndex(
      (item: { task: string; fence: number }) => item.task === id && item.fence === fence,
    );
    // A refusal with which it keeps the task takes the credit again.
    return i >= 0 && !(doneAt < at && ok?.tasks[i].error?.code === 'CONFLICT');
  });
}

function progressed(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  holds(model, task, data);
  task.renewedAt = at;
}

/** The event speaks for the attempt that runs. */
export function holds(
  model: Model,
  task: ModelTask,
  data: { fence?: number; session?: string; attempt?: number },
): void {
  if (task.state !== 'active') model.problem(`is ${task.state}, not active`);
  if (data.fence !== task.fence) model.problem(`fence ${data.fence}, the attempt has ${task.fence}`);
  if (data.session !== task.session) model.problem(`session ${data.session}, the attempt is of ${task.session}`);
  if (data.attempt !== undefined && data.attempt !== task.attempt)
    model.problem(`attempt ${data.attempt}, it is ${task.attempt}`);
}

function updated(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  if (!['ready', 'scheduled', 'active'].includes(task.state)) model.problem(`updated while ${task.state}`);
  if (data.priority !== undefined) task.priority = data.priority;
  if (data.startByAt !== undefined) task.startBy = Date.parse(data.startByAt);
  if (data.deadlineAt !== undefined) task.deadline = Date.parse(data.deadlineAt);
  const state = data.state as TaskState;
  if (task.state === 'active' && state !== 'active') model.problem(`an update made an active task ${state}`);
  if (data.runAt !== undefined) {
    if (task.state === 'ready') fromReady(model, task);
    task.state = 'scheduled';
    task.dueAt = Date.parse(data.runAt);
    if (task.dueAt <= at) model.problem('scheduled into the past');
  } else if (state === 'ready' && task.state !== 'ready') toReady(model, task);
  if (task.state !== state) model.problem(`says ${state}, should be ${task.state}`);
}

function redriven(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  if (task.state !== data.from || !['dead', 'expired'].includes(task.state))
    model.problem(`redriven from ${data.from}, was ${task.state}`);
  takeKey(model, task, at);
  task.attempt = 0;
  task.refunds = 0;
  task.claimedEver = false;
  task.startBy = undefined;
  task.deadline = undefined;
  task.ending = undefined;
  task.seq = undefined;
  toReady(model, task);
}
