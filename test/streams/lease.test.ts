import { describe, expect, it } from 'vitest';
import { giveBack$, sessionPush$ } from '../../streams/lease.js';
import { batch, entry, gap, marbles, published } from './support.js';

const lost = (session: string, reason = 'expired') => ['session.lost', { session, agent: 'a', reason }] as const;
const closed = (session: string) => ['session.closed', { session, agent: 'a', reason: 'closed' }] as const;
const resumed = (session: string, binding: number) => ['session.resumed', { session, agent: 'a', binding }] as const;
const opened = (session: string) => ['session.opened', { session, agent: 'a', tenant: 't' }] as const;

describe('giveBack$', () => {
  it('asks once a batch when this daemon ended sessions, and leaves those of others to their daemons and the sweeps', () => {
    marbles(({ hot, expectObservable }) => {
      const batches = {
        a: batch(entry('me', lost('s1'), lost('s2')), entry('me', closed('s3'))),
        b: batch(entry('other', lost('s4'))),
        c: batch(entry('other', lost('s5')), entry('me', closed('s6'))),
        d: batch(entry('me', opened('s7'), resumed('s7', 2))),
        e: batch(gap),
      };
      const batch$ = hot('a-b-c-d-e', batches);
      expectObservable(giveBack$(batch$, 'me')).toBe('g---g----', { g: { kind: 'giveBack' } });
    });
  });

  it('never believes what was published under its types', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a', { a: batch(published('me', lost('s1'))) });
      expectObservable(giveBack$(batch$, 'me')).toBe('-');
    });
  });
});

describe('sessionPush$', () => {
  it('tells of every end and every resume, whoever caused it, in the order of the log', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b', {
        a: batch(entry('other', lost('s1', 'revoked'), resumed('s2', 9)), entry('me', lost('s3'))),
        b: batch(entry('me', resumed('s2', 10))),
      });
      expectObservable(sessionPush$(batch$)).toBe('x-y', {
        x: [
          { kind: 'lost', session: 's1', reason: 'revoked' },
          { kind: 'replaced', session: 's2', binding: 9 },
          { kind: 'lost', session: 's3', reason: 'expired' },
        ],
        y: [{ kind: 'replaced', session: 's2', binding: 10 }],
      });
    });
  });

  it('is silent on a close: the socket whose client asked for it hears the answer', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b', { a: batch(entry('me', closed('s1'))), b: batch(published('me', lost('s1'))) });
      expectObservable(sessionPush$(batch$)).toBe('-');
    });
  });

  it('does not cut entries that have nothing for it', () => {
    marbles(({ hot, expectObservable, flush }) => {
      const other = entry('me', ['task.enqueued', { queue: 'q' }]);
      Object.defineProperty(other, 'events', { get: () => expect.unreachable('the entry was cut') });
      expectObservable(sessionPush$(hot('a', { a: batch(other) }))).toBe('-');
      flush();
    });
  });
});
