import { describe, expect, it } from 'vitest';
import { dispatch$, due$, taskPush$ } from '../../streams/queue.js';
import { batch, entry, gap, marbles, published, type Told } from './support.js';

let tasks = 0;
const of = (queue: string, more: Record<string, unknown> = {}): Record<string, unknown> => ({
  queue,
  task: `t${++tasks}`,
  tenant: 'x',
  ...more,
});
const enqueued = (queue: string, more = {}): Told => ['task.enqueued', of(queue, { state: 'ready', ...more })];
const dispatch = (queue: string, taskKind: string | undefined, count: number) => ({
  kind: 'dispatch',
  queue,
  taskKind,
  count,
});

describe('dispatch$', () => {
  it('counts by queue and kind what others have put in, and leaves to its own scripts what this daemon has', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d', {
        a: batch(
          entry('other', enqueued('q'), enqueued('q'), enqueued('p', { kind: 'k' })),
          entry('other', enqueued('q', { kind: 'k' })),
        ),
        b: batch(entry('me', enqueued('q'), enqueued('q'))),
        c: batch(entry('other', enqueued('q', { state: 'scheduled' })), gap),
        d: batch(entry('me', enqueued('q')), entry('other', enqueued('q'))),
      });
      expectObservable(dispatch$(batch$, 'me')).toBe('x-----y', {
        x: [dispatch('q', '', 2), dispatch('p', 'k', 1), dispatch('q', 'k', 1)],
        y: [dispatch('q', '', 1)],
      });
    });
  });

  it('tells of everything else that becomes ready, whoever did it; an unpaused queue may have any kind', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c', {
        a: batch(
          entry(
            'me',
            ['task.ready', of('q')],
            ['task.retried', of('q', { state: 'ready' })],
            ['task.released', of('q', { state: 'ready' })],
            ['task.redriven', of('q', { state: 'ready' })],
            ['task.updated', of('q', { state: 'ready' })],
          ),
        ),
        b: batch(
          entry(
            'me',
            ['task.retried', of('q', { state: 'scheduled' })],
            ['task.updated', of('q', { state: 'active' })],
          ),
        ),
        c: batch(entry('me', ['queue.unpaused', { queue: 'q' }], ['task.ready', of('q')])),
      });
      expectObservable(dispatch$(batch$, 'me')).toBe('x---y', {
        x: [dispatch('q', '', 5)],
        y: [dispatch('q', undefined, Number.POSITIVE_INFINITY), dispatch('q', '', 1)],
      });
    });
  });

  it('wakes nobody for what the step that made it ready gave out', () => {
    const given = of('q', { state: 'ready' });
    const back = of('q', { state: 'ready' });
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b', {
        a: batch(entry('other', ['task.enqueued', given], enqueued('q'), ['task.claimed', given])),
        b: batch(entry('me', ['task.claimed', back], ['task.retried', back])),
      });
      expectObservable(dispatch$(batch$, 'me')).toBe('x-y', { x: [dispatch('q', '', 1)], y: [dispatch('q', '', 1)] });
    });
  });

  it('never believes what was published, and does not cut entries in which nothing became ready', () => {
    marbles(({ hot, expectObservable }) => {
      const claims = entry('other', ['task.claimed', of('q')], ['task.completed', of('q')]);
      Object.defineProperty(claims, 'events', { get: () => expect.unreachable('the entry was cut') });
      const batch$ = hot('a-b', { a: batch(published('other', enqueued('q'))), b: batch(claims) });
      expectObservable(dispatch$(batch$, 'me')).toBe('-');
    });
  });
});

describe('due$', () => {
  const at = (second: number): string => new Date(second * 1000).toISOString();

  it('takes care of the earliest moment a batch of this daemon has brought', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d', {
        a: batch(
          entry(
            'me',
            ['task.enqueued', of('q', { state: 'scheduled', runAt: at(5) })],
            ['task.enqueued', of('q', { state: 'scheduled', runAt: at(3) })],
          ),
        ),
        b: batch(
          entry('me', ['task.retried', of('q', { state: 'scheduled', nextAt: at(9) })]),
          entry('me', ['queue.paused', { queue: 'q', until: at(7) }]),
        ),
        c: batch(
          entry(
            'me',
            ['task.released', of('q', { state: 'scheduled', nextAt: at(4) })],
            ['task.updated', of('q', { state: 'scheduled', runAt: at(6) })],
          ),
        ),
        d: batch(entry('me', enqueued('q'), ['queue.paused', { queue: 'q' }])),
      });
      expectObservable(due$(batch$, 'me')).toBe('x-y-z--', {
        x: { kind: 'due', at: 3000 },
        y: { kind: 'due', at: 7000 },
        z: { kind: 'due', at: 4000 },
      });
    });
  });

  it('leaves to others what is theirs', () => {
    marbles(({ hot, expectObservable }) => {
      const mine: Told = ['task.enqueued', of('q', { state: 'scheduled', runAt: at(5) })];
      expectObservable(
        due$(hot('a-b', { a: batch(entry('other', mine), gap), b: batch(published('me', mine)) }), 'me'),
      ).toBe('-');
    });
  });
});

describe('taskPush$', () => {
  const held = (reason: string, more = {}): Record<string, unknown> => ({
    queue: 'q',
    task: 't',
    tenant: 'x',
    session: 's',
    agent: 'a',
    fence: 7,
    reason,
    ...more,
  });
  const push = (kind: string, reason: string, graceMs = 0) => ({
    kind,
    session: 's',
    task: 't',
    fence: 7,
    reason,
    graceMs,
  });

  it('asks a holder to stop, and tells it of every end it did not bring about', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c', {
        a: batch(
          entry(
            'other',
            ['task.cancelRequested', held('cancelled', { graceMs: 250 })],
            ['task.cancelRequested', held('deadline', { graceMs: 9 })],
          ),
        ),
        b: batch(
          entry(
            'me',
            ['task.retried', held('timedOut')],
            ['task.dead', held('leaseLapsed')],
            ['task.cancelled', held('cancelled')],
            ['task.expired', held('deadline')],
          ),
        ),
        c: batch(
          entry(
            'me',
            ['task.released', held('undelivered')],
            ['task.released', held('drained')],
            ['task.retried', held('sessionLost')],
            ['task.retried', held('revoked')],
          ),
        ),
      });
      expectObservable(taskPush$(batch$)).toBe('x-y-z', {
        x: [push('cancel', 'cancelled', 250), push('cancel', 'deadline', 9)],
        y: [
          push('revoked', 'timedOut'),
          push('revoked', 'leaseLapsed'),
          push('revoked', 'cancelled'),
          push('revoked', 'deadline'),
        ],
        z: ['undelivered', 'drained', 'sessionLost', 'revoked'].map((reason) => push('revoked', reason)),
      });
    });
  });

  it('is silent about what the holder did itself, about waiting tasks, and about what was published', () => {
    marbles(({ hot, expectObservable }) => {
      const waiting = { queue: 'q', task: 't', tenant: 'x', reason: 'cancelled' };
      const batch$ = hot('a-b-c', {
        a: batch(
          entry(
            'me',
            ['task.retried', held('failed')],
            ['task.dead', held('failed')],
            ['task.released', held('released')],
            ['task.completed', held('completed')],
          ),
        ),
        b: batch(entry('me', ['task.cancelled', waiting], ['task.expired', { ...waiting, reason: 'deadline' }])),
        c: batch(published('me', ['task.retried', held('revoked')])),
      });
      expectObservable(taskPush$(batch$)).toBe('-');
    });
  });
});
