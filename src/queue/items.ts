import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { checkBytes } from '../protocol/bytes.js';
import { utf8Bytes } from '../protocol/primitives.js';
import { type Backoff, backoffText, type NewTask } from './model.js';
import type { Fresh } from './port.js';

/** A new task as redis/lua/put.lua reads it. */
export interface PutItem {
  readonly task: string;
  readonly queue: string;
  readonly kind: string;
  readonly tenant: string;
  readonly priority: number;
  readonly tail: string;
  readonly options: string;
}

export interface Sizes {
  readonly payloadBytes: number;
  readonly progressBytes: number;
}

/**
 * Refuses what the schema lets through and the sizes or the fields together do not allow. What may be enqueued can always
 * be delivered: a `tasks` line with one task must fit into a line, so payload and metadata have bounds far below it.
 */
export function putItem(queue: string, task: NewTask, tenant: string, sizes: Sizes): PutItem {
  checkBytes('payload', task.payload, sizes.payloadBytes);
  checkBytes('metadata', task.metadata, sizes.progressBytes);
  if (task.delayMs !== undefined && task.runAt !== undefined) {
    throw new Refusal('INVALID', 'delayMs and runAt say the same thing in two ways; give one of them');
  }
  if (task.backoff) checkBackoff(task.backoff);
  const members =
    (task.kind === undefined ? '' : `"kind":${JSON.stringify(task.kind)},`) +
    (task.metadata === undefined ? '' : `"metadata":${task.metadata},`) +
    (task.traceparent === undefined ? '' : `"traceparent":"${task.traceparent}",`) +
    `"payload":${task.payload}`;
  const key = task.key ?? '';
  const backoff = task.backoff ? backoffText(task.backoff) : '';
  const tail = `${task.maxAttempts ?? ''}\0${task.timeoutMs ?? ''}\0${task.leaseMs ?? ''}\0${backoff}\0${key}\0${utf8Bytes(task.payload)}\0${members}`;
  return {
    task: task.task ?? newId(),
    queue,
    kind: task.kind ?? '',
    tenant: task.tenant ?? tenant,
    priority: task.priority,
    tail,
    options: optionsOf(task, key),
  };
}

export function checkBackoff({ baseMs, capMs }: Backoff): void {
  if (capMs < baseMs) throw new Refusal('INVALID', `backoff.capMs (${capMs}) is below backoff.baseMs (${baseMs})`);
}

/** Milliseconds of an instant for a script; one before 1970 is over like any other. */
export const instantMs = (text: string): number => Math.max(0, Date.parse(text));

function optionsOf(task: NewTask, key: string): string {
  const { delayMs, runAt, startByMs, deadlineMs } = task;
  if (delayMs === undefined && runAt === undefined && startByMs === undefined && deadlineMs === undefined && key === '')
    return '';
  const runAtMs = runAt === undefined ? '' : instantMs(runAt);
  return `${delayMs || ''},${runAtMs},${startByMs ?? ''},${deadlineMs ?? ''},${key}`;
}

/** Script arguments of redis/lua/put.lua: tasks that share queue, kind, tenant and priority name them once. */
export function putArgs(items: readonly PutItem[]): (string | number)[] {
  const groups = new Map<string, number>();
  const head: (string | number)[] = [];
  const rows: (string | number)[] = [];
  for (const item of items) {
    const name = `${item.queue}\0${item.kind}\0${item.tenant}\0${item.priority}`;
    let group = groups.get(name);
    if (group === undefined) {
      group = groups.size + 1;
      groups.set(name, group);
      head.push(item.queue, item.kind, item.tenant, item.priority);
    }
    rows.push(group, item.task, item.tail, item.options);
  }
  return [groups.size, ...head, items.length, ...rows];
}

/** What a script that puts `items` brings to whom. */
export function freshOf(items: readonly PutItem[]): Map<string, Fresh> {
  const queues = new Map<string, Fresh>();
  for (const { queue, kind } of items) {
    const fresh = queues.get(queue);
    if (!fresh) queues.set(queue, { tasks: 1, kinds: new Set([kind]) });
    else {
      fresh.tasks++;
      fresh.kinds.add(kind);
    }
  }
  return queues;
}
