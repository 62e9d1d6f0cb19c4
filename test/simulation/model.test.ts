import { describe, expect, test } from 'vitest';
import { type Any, type Call, Ledger } from './calls.js';
import { Model } from './model.js';
import type { TapEvent } from './tap.js';

const rules = { maxAttempts: 3, refundsMax: 1, keyWindowMs: 500, backoffCapMs: 100, graceMs: 20 };
const holder = { session: 's1', agent: 'a' };

/** A hand-made log: one event an entry, 10 ms apart, about task t of queue q unless it says otherwise. */
class Story {
  readonly ledger = new Ledger();
  readonly #events: TapEvent[] = [];

  asked(op: string, params: Any, session = 's1'): this {
    const call: Call = { agent: 'a', session, op, params, sentAt: 0, doneAt: 0, ok: {} };
    this.ledger.add(call);
    return this;
  }

  tell(type: string, data: Any = {}): this {
    const offset = this.#events.length + 1;
    const about = type.startsWith('task.') ? { queue: 'q', task: 't', tenant: 'default', ...data } : data;
    this.#events.push({
      epoch: 'e',
      offset,
      at: offset * 10,
      by: 'd',
      type,
      subject: about.task ?? null,
      data: about,
      own: true,
      id: '',
      source: '',
      entry: offset,
    });
    return this;
  }

  problems(): string[] {
    const model = new Model(this.ledger, rules);
    model.run(this.#events);
    return model.problems;
  }
}

const put = (task: string, spec: Any = {}) => ({ queue: 'q', tasks: [{ task, payload: 1, ...spec }] });
const enqueued = { priority: 50, state: 'ready' };
const claim = (fence: number, more: Any = {}) => ({ ...holder, worker: 'w', attempt: 1, fence, ...more });

/** A session with a worker of credit 1, and one task in the queue. */
const begun = (spec: Any = {}, more: Any = {}): Story =>
  new Story()
    .asked('queue.enqueue', put('t', spec))
    .asked('queue.work', { queue: 'q', credit: 1, worker: 'w' })
    .tell('session.opened', holder)
    .tell('task.enqueued', { ...enqueued, ...more });

describe('the reference model takes what the contract allows', () => {
  test('a task from enqueue to its result', () => {
    const story = begun().asked('queue.complete', { tasks: [{ task: 't', fence: 5 }] });
    expect(
      story
        .tell('task.claimed', claim(5))
        .tell('task.completed', { ...holder, attempt: 1, fence: 5 })
        .problems(),
    ).toEqual([]);
  });

  test('a lost worker, and the second attempt', () => {
    const story = begun()
      .tell('task.claimed', claim(5))
      .tell('session.lost', { ...holder, reason: 'expired' });
    story.tell('task.retried', { ...holder, attempt: 1, fence: 5, state: 'ready', reason: 'sessionLost' });
    expect(story.problems()).toEqual([]);
  });
});

describe('and refuses everything else', () => {
  const lost = { ...holder, attempt: 1, fence: 5, state: 'ready', reason: 'sessionLost' };
  const done = { ...holder, attempt: 1, fence: 5 };
  const stories: [string, () => Story, RegExp][] = [
    ['a task that nobody asked for', () => new Story().tell('task.enqueued', enqueued), /nobody asked/],
    ['a task that is there twice', () => begun().tell('task.enqueued', enqueued), /enqueued again/],
    [
      'a claim of a task that runs',
      () =>
        begun()
          .tell('task.claimed', claim(5))
          .tell('task.claimed', claim(6, { attempt: 2 })),
      /claimed while active/,
    ],
    [
      'a fence that falls',
      () =>
        begun()
          .tell('task.claimed', claim(5))
          .tell('task.retried', lost)
          .tell('task.claimed', claim(4, { attempt: 2 })),
      /does not rise/,
    ],
    [
      'an attempt that is not counted',
      () => begun().tell('task.claimed', claim(5)).tell('task.retried', lost).tell('task.claimed', claim(6)),
      /attempt 1 after 1/,
    ],
    [
      'a claim while paused',
      () => begun().tell('queue.paused', { queue: 'q' }).tell('task.claimed', claim(5)),
      /while paused/,
    ],
    [
      'a claim for a session that has ended',
      () =>
        begun()
          .tell('session.lost', { ...holder, reason: 'expired' })
          .tell('task.claimed', claim(5)),
      /has ended/,
    ],
    [
      'a completion by nobody',
      () => begun().tell('task.claimed', claim(5)).tell('task.completed', done),
      /nobody completed/,
    ],
    [
      'a completion under an old fence',
      () =>
        begun()
          .asked('queue.complete', { tasks: [{ task: 't', fence: 4 }] })
          .tell('task.claimed', claim(5))
          .tell('task.completed', { ...done, fence: 4 }),
      /fence 4/,
    ],
    ['a claim past its deadline', () => begun({ deadlineMs: 5 }).tell('task.claimed', claim(5)), /past its deadline/],
    [
      'an end before its deadline',
      () => begun({ deadlineMs: 500 }).tell('task.expired', { reason: 'deadline' }),
      /too early/,
    ],
    [
      'a delayed task before its time',
      () => begun({ delayMs: 500 }, { state: 'scheduled', runAt: new Date(520).toISOString() }).tell('task.ready'),
      /before it was due/,
    ],
    [
      'a timeout before its time',
      () =>
        begun({ timeoutMs: 500 })
          .tell('task.claimed', claim(5))
          .tell('task.retried', { ...lost, reason: 'timedOut' }),
      /too early/,
    ],
    [
      'a task that is dead with attempts left',
      () =>
        begun()
          .tell('task.claimed', claim(5))
          .tell('task.dead', { ...lost, state: undefined }),
      /dead after attempt 1/,
    ],
    [
      'a refund beyond their number',
      () => {
        const story = begun({ maxAttempts: 9 }).asked('queue.release', {
          tasks: [
            { task: 't', fence: 5 },
            { task: 't', fence: 6 },
          ],
        });
        const back = { ...lost, reason: 'released' };
        return story
          .tell('task.claimed', claim(5))
          .tell('task.released', back)
          .tell('task.claimed', claim(6))
          .tell('task.released', { ...back, fence: 6 });
      },
      /charged/,
    ],
    [
      'two tasks for one credit',
      () =>
        begun()
          .asked('queue.enqueue', put('u'))
          .tell('task.enqueued', { ...enqueued, task: 'u' })
          .tell('task.claimed', claim(5))
          .tell('task.claimed', claim(6, { task: 'u' })),
      /credit 1/,
    ],
    [
      'a later task ahead of an earlier one',
      () =>
        begun()
          .asked('queue.enqueue', put('u'))
          .tell('task.enqueued', { ...enqueued, task: 'u' })
          .tell('task.claimed', claim(5, { task: 'u' })),
      /stands ahead/,
    ],
    [
      'a lower priority ahead of a higher one',
      () =>
        begun()
          .asked('queue.enqueue', put('u', { priority: 60 }))
          .tell('task.enqueued', { ...enqueued, priority: 60, task: 'u' })
          .tell('task.claimed', claim(5)),
      /stands ahead/,
    ],
    [
      'a key that is taken',
      () =>
        begun({ key: 'k' })
          .asked('queue.enqueue', put('u', { key: 'k' }))
          .tell('task.enqueued', { ...enqueued, task: 'u' }),
      /is held by t/,
    ],
    [
      'a session that ends before its promise',
      () => {
        const story = new Story().tell('session.opened', holder).tell('session.lost', { ...holder, reason: 'expired' });
        story.ledger.proofs.push({ session: 's1', sentAt: 10, ttlMs: 100 });
        return story;
      },
      /before its promise/,
    ],
    [
      'work taken from a session whose socket has only just come back',
      () =>
        begun()
          .tell('task.claimed', claim(5))
          .tell('session.resumed', { ...holder, binding: 9 })
          .tell('task.retried', lost),
      /given back/,
    ],
    [
      'a removal of a task that runs',
      () =>
        begun()
          .asked('queue.purge', { queue: 'q' })
          .tell('task.claimed', claim(5))
          .tell('task.removed', { state: 'active', reason: 'purged' }),
      /removed while active/,
    ],
  ];
  test.each(stories)('%s', (_, make, problem) => {
    expect(make().problems().join('\n')).toMatch(problem);
  });
});
