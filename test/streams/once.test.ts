import { describe, it } from 'vitest';
import { oncePush$ } from '../../streams/once.js';
import { batch, entry, marbles, published } from './support.js';

const unknown = (key: string, reason: string) =>
  ['once.unknown', { key, session: 's', agent: 'a', fence: 7, attempts: 1, reason }] as const;

describe('oncePush$', () => {
  it('tells a holder whose session lives on that its key was taken, and nobody of anything else', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d', {
        a: batch(entry('other', unknown('k', 'leaseLapsed'), unknown('k2', 'revoked'))),
        b: batch(entry('me', unknown('k', 'sessionLost'), unknown('k', 'closed'), unknown('k', 'reported'))),
        c: batch(published('me', unknown('k', 'revoked'))),
        d: batch(entry('me', ['once.finished', { key: 'k', session: 's', agent: 'a', fence: 7, attempts: 1 }])),
      });
      expectObservable(oncePush$(batch$)).toBe('a------', {
        a: [
          { kind: 'lostOnce', session: 's', key: 'k', fence: 7, reason: 'leaseLapsed' },
          { kind: 'lostOnce', session: 's', key: 'k2', fence: 7, reason: 'revoked' },
        ],
      });
    });
  });
});
