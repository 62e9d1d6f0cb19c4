import type { Model } from './model.js';
import type { ModelTask, TaskState } from './state.js';
import type { TapEvent } from './tap.js';
import { fromReady, holds, toReady } from './task-rules.js';

/** A clock that ran out: the step may come late, never early. */
function notBefore(model: Model, what: string, moment: number | undefined, at: number): void {
  if (moment === undefined) model.problem(`${what}, but nothing of the kind was set`);
  else if (at < moment - 1) model.problem(`${what} ${moment - at} ms too early`);
}

/** Somebody who held the task asked for this under its fence. */
function asked(model: Model, op: string, task: ModelTask, at: number): boolean {
  return model.ledger
    .about(task.id)
    .some(
      (call) =>
        call.op === op &&
        call.sentAt <= at + 2 &&
        call.params.tasks?.some(
          (item: { task: string; fence: number }) => item.task === task.id && item.fence === task.fence,
        ),
    );
}

export function cancelRequested(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  holds(model, task, { fence: data.fence, session: data.session });
  if (task.ending) model.problem('asked to stop twice');
  if (data.reason === 'deadline') notBefore(model, 'stopped for its deadline', task.deadline, at);
  else if (!model.ledger.about(task.id).some(({ op, sentAt }) => op === 'queue.cancel' && sentAt <= at + 2)) {
    model.problem('nobody cancelled it');
  }
  task.ending = { reason: data.reason, endsAt: at + data.graceMs };
}

/** Why an attempt was taken from its holder, and whether that may be so. */
function reasonHolds(model: Model, task: ModelTask, reason: string, at: number): void {
  const session = model.sessions.get(task.session);
  switch (reason) {
    case 'failed':
      if (!asked(model, 'queue.fail', task, at)) model.problem('nobody failed it');
      return;
    case 'released':
      if (!asked(model, 'queue.release', task, at)) model.problem('nobody released it');
      return;
    case 'timedOut': {
      const { claimedAt, timeoutMs } = task;
      notBefore(model, 'timed out', timeoutMs === undefined ? undefined : claimedAt + timeoutMs, at);
      return;
    }
    case 'leaseLapsed':
      notBefore(model, 'lease lapsed', task.renewedAt + (task.leaseMs ?? 0), at);
      return;
    case 'revoked':
      if (!model.ledger.about(task.id).some(({ op, sentAt }) => op === 'lease.revoke' && sentAt <= at + 2))
        model.problem('nobody revoked it');
      return;
    case 'sessionLost':
      if (!session) model.problem(`session ${task.session} never was`);
      // It lives: then its socket has been broken for the whole grace since it was last bound, or its ttl is over.
      else if (session.endedAt === undefined) notBefore(model, 'given back', session.boundAt + model.rules.graceMs, at);
      return;
    case 'undelivered':
    case 'drained':
      return;
    case 'cancelled':
    case 'deadline':
      notBefore(model, 'fenced out', task.ending?.endsAt, at);
      return;
    default:
      model.problem(`reason ${reason}`);
  }
}

function leave(model: Model, task: ModelTask, data: TapEvent['data'], at: number): void {
  holds(model, task, data);
  reasonHolds(model, task, data.reason, at);
  task.outcomes.set(task.fence, { outcome: data.reason, state: data.state, session: task.session });
  task.session = '';
  task.worker = '';
}

function back(model: Model, task: ModelTask, data: TapEvent['data']): void {
  if (data.state === 'ready') toReady(model, task);
  else {
    task.state = 'scheduled';
    task.dueAt = Date.parse(data.nextAt);
  }
}

/** A refusal to start before a stated moment holds whatever the jitter. */
function notSooner(model: Model, task: ModelTask, op: string, { data, at }: TapEvent): void {
  let least = Number.POSITIVE_INFINITY;
  for (const call of model.ledger.about(task.id)) {
    if (call.op !== op) continue;
    for (const item of call.params.tasks)
      if (item.task === task.id && item.fence === data.fence) least = Math.min(least, item.afterMs ?? 0);
  }
  const nextAt = data.nextAt === undefined ? at : Date.parse(data.nextAt);
  if (least < Number.POSITIVE_INFINITY && nextAt < at + least)
    model.problem(`again at ${nextAt}, asked for not before ${at + least}`);
}

export function released(model: Model, task: ModelTask, event: TapEvent): void {
  const { data, at } = event;
  if (!['released', 'undelivered', 'drained'].includes(data.reason))
    model.problem(`released with reason ${data.reason}`);
  if (task.ending) model.problem('released although it was to end');
  const refund = task.refunds < model.rules.refundsMax;
  if (refund === (data.charged === true)) model.problem(`charged: ${data.charged}, after ${task.refunds} refunds`);
  if (!refund && task.attempt >= task.maxAttempts) model.problem('back although no attempt is left');
  leave(model, task, data, at);
  if (data.reason === 'released') notSooner(model, task, 'queue.release', event);
  if (refund) {
    task.attempt--;
    task.refunds++;
  }
  back(model, task, data);
}

export function retried(model: Model, task: ModelTask, event: TapEvent): void {
  const { data, at } = event;
  if (!['failed', 'timedOut', 'sessionLost', 'leaseLapsed', 'revoked'].includes(data.reason))
    model.problem(`retried with reason ${data.reason}`);
  if (task.attempt >= task.maxAttempts) model.problem(`retried after attempt ${task.attempt} of ${task.maxAttempts}`);
  if (task.ending) model.problem('retried although it was to end');
  const backedOff = data.reason === 'failed' || data.reason === 'timedOut';
  if (!backedOff && data.state !== 'ready') model.problem(`${data.reason} goes back at once, not ${data.state}`);
  leave(model, task, data, at);
  if (data.reason === 'failed') notSooner(model, task, 'queue.fail', event);
  back(model, task, data);
}

export function completed(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  holds(model, task, data);
  if (!asked(model, 'queue.complete', task, at)) model.problem('nobody completed it');
  const session = model.sessions.get(task.session);
  if (session?.endedAt !== undefined) model.problem('completed by a session that has ended');
  task.outcomes.set(task.fence, { outcome: 'completed', state: 'completed', session: task.session });
  end(model, task, 'completed', at);
}

function end(model: Model, task: ModelTask, state: TaskState, at: number): void {
  if (task.state === 'ready') fromReady(model, task);
  task.state = state;
  task.endedAt = at;
  task.ending = undefined;
  const { keys } = model.queue(task.queue);
  if (state !== 'completed' && keys.get(task.key) === task) keys.delete(task.key);
}

export function dead(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  const last = task.attempt >= task.maxAttempts;
  const forGood =
    data.reason === 'failed' &&
    model.ledger
      .about(task.id)
      .some(
        (call) =>
          call.op === 'queue.fail' &&
          call.params.tasks.some(
            (item: { task: string; fence: number; retry?: boolean }) =>
              item.task === task.id && item.fence === data.fence && item.retry === false,
          ),
      );
  if (!last && !forGood) model.problem(`dead after attempt ${task.attempt} of ${task.maxAttempts}`);
  const refunded = ['released', 'undelivered', 'drained'].includes(data.reason);
  if (refunded && task.refunds < model.rules.refundsMax) model.problem('dead although a refund was left');
  if (task.ending) model.problem('dead although it was to end otherwise');
  leave(model, task, { ...data, state: 'dead' }, at);
  end(model, task, 'dead', at);
}

export function cancelled(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  if (task.state === 'active') {
    if (task.ending?.reason !== 'cancelled') model.problem('cancelled while active, without having been asked');
    stopped(model, task, data);
  } else if (task.state !== 'ready' && task.state !== 'scheduled') model.problem(`cancelled while ${task.state}`);
  if (!model.ledger.about(task.id).some(({ op, sentAt }) => op === 'queue.cancel' && sentAt <= at + 2))
    model.problem('nobody cancelled it');
  end(model, task, 'cancelled', at);
}

export function expired(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  if (task.state === 'active') {
    if (task.ending?.reason !== 'deadline') model.problem('expired while active, without having been asked');
    stopped(model, task, data);
  } else if (task.state !== 'ready' && task.state !== 'scheduled') model.problem(`expired while ${task.state}`);
  else {
    const startBy = task.claimedEver ? undefined : task.startBy;
    notBefore(
      model,
      'expired',
      Math.min(task.deadline ?? Number.POSITIVE_INFINITY, startBy ?? Number.POSITIVE_INFINITY),
      at,
    );
  }
  end(model, task, 'expired', at);
}

/** The end of an attempt that had been asked to stop: by its grace, or by any other way out but `complete`. */
function stopped(model: Model, task: ModelTask, data: TapEvent['data']): void {
  holds(model, task, data);
  task.outcomes.set(task.fence, { outcome: data.reason, state: '', session: task.session });
  task.session = '';
  task.worker = '';
}

export function removed(model: Model, task: ModelTask, { data, at }: TapEvent): void {
  if (task.state === 'active') model.problem('removed while active');
  if (data.state !== task.state) model.problem(`removed as ${data.state}, was ${task.state}`);
  const waiting = task.state === 'ready' || task.state === 'scheduled';
  if (data.reason !== 'purged' && waiting) model.problem(`${data.reason} took a waiting task`);
  if (
    data.reason === 'purged' &&
    !model.ledger.calls.some(
      ({ op, params, sentAt }) => op === 'queue.purge' && params.queue === task.queue && sentAt <= at + 2,
    )
  ) {
    model.problem('nobody purged it');
  }
  end(model, task, 'removed', at);
}
