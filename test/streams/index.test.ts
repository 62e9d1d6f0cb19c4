import { catchError, merge, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { main } from '../../streams/index.js';
import { batch, entry, epoch, gap, marbles, published } from './support.js';

const task = { queue: 'q', task: 't', tenant: 'x' };
const enqueued = ['task.enqueued', { ...task, state: 'ready' }] as const;
const scheduled = ['task.enqueued', { ...task, state: 'scheduled', runAt: '2026-01-01T00:00:05.000Z' }] as const;
const lost = ['session.lost', { session: 's', agent: 'a', reason: 'expired' }] as const;
const retried = (session: string, reason: string) =>
  ['task.retried', { ...task, session, agent: 'a', attempt: 1, fence: 7, state: 'ready', reason }] as const;

describe('main', () => {
  it('turns the log into what the system asks of itself', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a--b--c--d', {
        a: batch(entry('other', enqueued, enqueued)),
        b: batch(entry('me', scheduled)),
        c: batch(entry('me', lost)),
        d: batch(entry('me', enqueued)), // its own script has asked its own workers
      });
      expectObservable(main({ batch$, daemon: 'me' }).intents$).toBe('a--b--c---', {
        a: { kind: 'dispatch', queue: 'q', taskKind: '', count: 2 },
        b: { kind: 'due', at: Date.parse('2026-01-01T00:00:05.000Z') },
        c: { kind: 'giveBack' },
      });
    });
  });

  it('a hole in the log or a new epoch is asked of Redis anew, ahead of what came behind it', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a---b-c', {
        a: batch(gap, entry('me', lost)),
        b: batch(epoch),
        c: batch(gap, epoch),
      });
      expectObservable(main({ batch$, daemon: 'me' }).intents$).toBe('(ra)r-r', {
        r: { kind: 'resync' },
        a: { kind: 'giveBack' },
      });
    });
  });

  it('tells sockets what became of what they hold, one push each, whoever caused it', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a---b', {
        a: batch(entry('other', lost, retried('s', 'sessionLost'), retried('s2', 'failed'))),
        b: batch(published('other', lost), published('other', retried('s', 'revoked'))),
      });
      const push = { session: 's', task: 't', fence: 7, reason: 'sessionLost', graceMs: 0 };
      expectObservable(main({ batch$, daemon: 'me' }).pushes$).toBe('(rl)-', {
        r: { kind: 'revoked', ...push },
        l: { kind: 'lost', session: 's', reason: 'expired' },
      });
    });
  });

  it('ends and errs with its source', () => {
    const error = new Error('x');
    const seen: unknown[] = [];
    const { intents$, pushes$ } = main({ batch$: throwError(() => error), daemon: 'me' });
    merge(
      intents$.pipe(catchError((told) => [seen.push(told)])),
      pushes$.pipe(catchError((told) => [seen.push(told)])),
    ).subscribe();
    expect(seen).toEqual([error, error]);
  });
});
