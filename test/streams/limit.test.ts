import { describe, expect, it } from 'vitest';
import { type Limits, limitDefined$, limitDue$, limitPush$, limits$, limitView } from '../../streams/limit.js';
import { batch, entry, gap, marbles, published } from './support.js';

const own = { limit: 'm1', reservation: 'r1', session: 's1', agent: 'a' };
const at = (second: number): string => new Date(second * 1000).toISOString();
const waiting = (ends: number, resumes?: number) =>
  [
    'limit.waiting',
    { ...own, place: 1, endsAt: at(ends), ...(resumes === undefined ? {} : { resumesAt: at(resumes) }) },
  ] as const;
const granted = ['limit.granted', { ...own, fence: 7, validMs: 15_000, waitedMs: 3 }] as const;
const grantedAtOnce = ['limit.granted', { ...own, fence: 6, validMs: 15_000 }] as const;
const waitEnded = (reason: string) => ['limit.waitEnded', { ...own, reason }] as const;
const lost = (reason: string) => ['limit.lost', { ...own, fence: 7, reason }] as const;
const penalized = (until: number) =>
  ['limit.penalized', { limit: 'm1', session: 's', agent: 'a', untilAt: at(until) }] as const;
const recovered = (reason: string) => ['limit.recovered', { limit: 'm1', reason }] as const;
const saturated = ['limit.saturated', { limit: 'm1', dimension: 'n' }] as const;
const gauge = (used: number, waits = 0) =>
  ['limit.gauge', { limit: 'm1', dimensions: { n: { amount: 60, used, reserved: 0 } }, waiting: waits }] as const;

describe('limitDue$', () => {
  it('is the soonest moment of what this daemon made wait; behind an end it is at once', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d-e-f-g', {
        a: batch(entry('me', waiting(5, 3), waiting(9))),
        b: batch(entry('other', waiting(1))),
        c: batch(entry('me', granted)),
        d: batch(entry('me', waiting(4)), entry('me', lost('leaseLapsed'))),
        e: batch(entry('me', penalized(8))),
        f: batch(gap),
        g: batch(entry('me', gauge(1))),
      });
      const due = (ms: number) => ({ kind: 'limitDue', at: ms });
      const expected = { a: due(3000), c: due(0), d: due(0), e: due(8000) };
      expectObservable(limitDue$(batch$, 'me')).toBe('a---c-d-e----', expected);
    });
  });

  it('never believes what was published under its types', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a', { a: batch(published('me', granted)) });
      expectObservable(limitDue$(batch$, 'me')).toBe('-');
    });
  });
});

describe('limitDefined$', () => {
  it('is every definition, whoever made it', () => {
    marbles(({ hot, expectObservable }) => {
      const defined = ['limit.defined', { limit: 'm1', definition: { kind: 'window' } }] as const;
      const batch$ = hot('a-b-c', {
        a: batch(entry('other', defined)),
        b: batch(entry('me', gauge(1))),
        c: batch(published('me', defined)),
      });
      expectObservable(limitDefined$(batch$)).toBe('a', {
        a: [{ kind: 'limitDefined', name: 'm1', definition: { kind: 'window' } }],
      });
    });
  });
});

describe('limitPush$', () => {
  it('tells who waited how it ended, and who lost a reservation it did not give back itself', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d-e', {
        a: batch(entry('other', waiting(5), granted)),
        b: batch(entry('me', waitEnded('timeout'), lost('leaseLapsed'))),
        c: batch(entry('me', lost('closed'), lost('sessionLost'))),
        d: batch(published('me', granted)),
        e: batch(entry('me', waiting(5), grantedAtOnce)),
      });
      const id = { session: 's1', reservation: 'r1' };
      expectObservable(limitPush$(batch$)).toBe('a-b', {
        a: [{ kind: 'limitGranted', ...id, name: 'm1', fence: 7, validMs: 15_000 }],
        b: [
          { kind: 'limitWaitEnded', ...id, reason: 'timeout' },
          { kind: 'limitLost', ...id, name: 'm1', fence: 7, reason: 'leaseLapsed' },
        ],
      });
    });
  });
});

describe('limits$', () => {
  const n = (used: number) => ({ n: { amount: 60, used, reserved: 0 } });

  it('is how full each limit is, who waits, and until when nobody is granted anything', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d-e', {
        a: batch(entry('me', gauge(3))),
        b: batch(entry('other', saturated, waiting(5), waiting(6))),
        c: batch(entry('me', granted, penalized(9))),
        d: batch(entry('me', waitEnded('timeout'), recovered('probe'))),
        e: batch(entry('me', recovered('capacity'), gauge(0))),
      });
      const of = (view: object): Limits => new Map([['m1', view as never]]);
      expectObservable(limits$(batch$)).toBe('a-b-c-d-e', {
        a: of({ dimensions: n(3), waiting: 0, saturated: false }),
        b: of({ dimensions: n(3), waiting: 2, saturated: true }),
        c: of({ dimensions: n(3), waiting: 1, saturated: true, pausedUntilAt: at(9) }),
        d: of({ dimensions: n(3), waiting: 0, saturated: true }),
        e: of({ dimensions: n(0), waiting: 0, saturated: false }),
      });
    });
  });

  it('leaves the view before as it was, and never counts below nobody', () => {
    const before: Limits = new Map();
    const after = limitView(before, [
      { type: granted[0], data: granted[1] },
      { type: 'task.ready', data: {} },
    ]);
    expect(before.size).toBe(0);
    expect(after.get('m1')?.waiting).toBe(0);
    expect(after.size).toBe(1);
  });
});
