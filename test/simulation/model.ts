import type { Ledger } from './calls.js';
import { type Candidate, type ModelQueue, type ModelSession, type ModelTask, type Moment, newQueue } from './state.js';
import type { TapEvent } from './tap.js';
import * as taskRules from './task-rules.js';

/** What the daemons were configured with, as far as the rules depend on it. */
export interface Rules {
  readonly maxAttempts: number;
  readonly refundsMax: number;
  readonly keyWindowMs: number;
  readonly backoffCapMs: number;
  readonly graceMs: number;
}

/**
 * The reference: sessions, queues and tasks as plain objects, moved by the log's events in their order, each of which
 * must be a step that the contract allows from where things stand. As every change has its event, walking the whole log
 * also shows that the log alone rebuilds the state.
 */
export class Model {
  readonly rules: Rules;
  readonly ledger: Ledger;
  readonly tasks = new Map<string, ModelTask>();
  readonly queues = new Map<string, ModelQueue>();
  readonly sessions = new Map<string, ModelSession>();
  readonly timelines = new Map<string, Moment[]>();
  /** The task of every attempt, by its fence: an id may be used again after its task was removed. */
  readonly attempts = new Map<number, ModelTask>();
  readonly problems: string[] = [];
  /** Counters over the whole log, for conservation. */
  readonly counts: Record<string, number> = {};
  fence = 0;
  #now: TapEvent | undefined;

  /** What was promised before Redis lost data is gone with it, as announced by the new epoch. */
  readonly #lostAt: number;

  constructor(ledger: Ledger, rules: Rules, lostAt = 0) {
    this.ledger = ledger;
    this.#lostAt = lostAt;
    this.rules = rules;
  }

  run(events: readonly TapEvent[]): void {
    events.forEach((event, i) => {
      this.#apply(event);
      // Events of one script share their entry; a queue that it leaves empty forgets its tenants' times.
      if (events[i + 1]?.entry !== event.entry) for (const queue of this.queues.values()) forgetTimes(queue);
    });
  }

  queue(name: string): ModelQueue {
    let queue = this.queues.get(name);
    if (!queue) {
      queue = newQueue(name);
      this.queues.set(name, queue);
    }
    return queue;
  }

  problem(text: string): void {
    const event = this.#now;
    const shown = event ? `[${event.epoch}:${event.offset} ${event.type} ${event.subject}] ` : '';
    if (this.problems.length < 50) this.problems.push(shown + text);
  }

  /** Notes how a task stands now. */
  moment(task: ModelTask): void {
    const { offset, at } = this.#now!;
    const moments = this.timelines.get(task.id) ?? [];
    this.timelines.set(task.id, moments);
    moments.push({
      offset,
      at,
      state: task.state,
      fence: task.fence,
      session: task.state === 'active' ? task.session : '',
    });
  }

  /** What callers had asked to be stored under this id by then. */
  candidatesFor(id: string, at: number): Candidate[] {
    const found: Candidate[] = [];
    for (const call of this.ledger.about(id)) {
      if (call.sentAt > at + 2) continue;
      const groups =
        call.op === 'queue.enqueue' ? [call.params] : call.op === 'queue.complete' ? (call.params.enqueue ?? []) : [];
      for (const { queue, tasks } of groups) {
        for (const spec of tasks) if (spec.task === id) found.push({ spec, queue, call });
      }
    }
    return found;
  }

  /** Fences rise over everything, whatever the store has lost. */
  rises(fence: number): void {
    if (!(fence > this.fence)) this.problem(`fence ${fence} does not rise above ${this.fence}`);
    this.fence = Math.max(this.fence, fence);
  }

  #apply(event: TapEvent): void {
    this.#now = event;
    if (!event.own) return;
    this.counts[event.type] = (this.counts[event.type] ?? 0) + 1;
    const [domain] = event.type.split('.');
    if (domain === 'task') taskRules.apply(this, event);
    else if (domain === 'session') this.#session(event);
    else if (domain === 'queue') this.#queue(event);
  }

  #session({ type, data, at }: TapEvent): void {
    const known = this.sessions.get(data.session);
    if (type === 'session.opened') {
      if (known) this.problem('a session is opened twice');
      this.sessions.set(data.session, {
        id: data.session,
        agent: data.agent,
        boundAt: at,
        binding: 0,
        endedAt: undefined,
        reason: '',
      });
      return;
    }
    if (!known || known.endedAt !== undefined) {
      this.problem(known ? 'the session has ended before' : 'a session that was never opened');
      return;
    }
    if (type === 'session.resumed') {
      this.rises(data.binding);
      known.binding = data.binding;
      known.boundAt = at;
      return;
    }
    known.endedAt = at;
    known.reason = data.reason;
    if (data.reason === 'expired') this.#expiredInTime(known, at);
    if (type === 'session.closed' && !(this.ledger.closings.get(known.agent)! <= at + 2)) {
      this.problem('closed, but its client has not closed it');
    }
    if (data.reason === 'revoked' && !this.#wasRevoked(data.session, at))
      this.problem('revoked, but nobody revoked it');
  }

  #wasRevoked(session: string, at: number): boolean {
    return this.ledger.calls.some(
      ({ op, params, sentAt }) => op === 'lease.revoke' && params.lease === `session:${session}` && sentAt <= at + 2,
    );
  }

  /** Not before ttlMs after the last proof that the client can reckon with. */
  #expiredInTime({ id }: ModelSession, at: number): void {
    for (const { session, sentAt, ttlMs } of this.ledger.proofs) {
      if (session === id && sentAt > this.#lostAt && sentAt <= at && at < sentAt + ttlMs - 2) {
        this.problem(
          `expired at ${at}, ${sentAt + ttlMs - at} ms before its promise (sent ${sentAt}, ttl ${ttlMs}) ran out`,
        );
      }
    }
  }

  #queue({ type, data, at }: TapEvent): void {
    const queue = this.queue(data.queue);
    if (type === 'queue.paused') {
      queue.paused = true;
      queue.pausedUntil = data.until === undefined ? undefined : Date.parse(data.until);
    } else if (type === 'queue.unpaused') {
      if (!queue.paused) this.problem('unpaused, but was not paused');
      const asked = this.ledger.calls.some(
        ({ op, params, sentAt }) => op === 'queue.unpause' && params.queue === data.queue && sentAt <= at + 2,
      );
      if (!asked && !(queue.pausedUntil !== undefined && queue.pausedUntil <= at)) this.problem('unpaused too early');
      queue.paused = false;
      queue.pausedUntil = undefined;
    }
  }
}

function forgetTimes(queue: ModelQueue): void {
  if (queue.ready.size > 0) return;
  queue.tenants.clear();
  queue.vtime = 0;
}
