import { describe, expect, it } from 'vitest';
import { type Holding, type Locks, lockDue$, lockPush$, locks$, lockView, waitsFor } from '../../streams/lock.js';
import { batch, entry, gap, marbles, published, type Told } from './support.js';

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
const about = (lock: string, grant: string, more: object): Record<string, unknown> => ({
  lock,
  grant,
  session: `s-${grant}`,
  agent: 'a',
  ...more,
});
const waiting = (lock: string, grant: string, more: object = {}): Told => [
  'lock.waiting',
  about(lock, grant, { place: 1, ...more }),
];
const granted = (lock: string, grant: string, fence: number, more: object = {}): Told => [
  'lock.granted',
  about(lock, grant, { fence, validMs: 15_000, ...more }),
];
const released = (lock: string, grant: string, fence = 1): Told => [
  'lock.released',
  about(lock, grant, { fence, reason: 'released' }),
];
const lost = (lock: string, grant: string, reason: string, more: object = {}): Told => [
  'lock.lost',
  about(lock, grant, { fence: 7, reason, ...more }),
];
const waitEnded = (lock: string, grant: string, reason: string, more: object = {}): Told => [
  'lock.waitEnded',
  about(lock, grant, { reason, ...more }),
];

describe('lockDue$', () => {
  it('asks for the earliest end of what this daemon wound, once a batch', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c-d', {
        a: batch(
          entry('me', waiting('x', 'g1', { endsAt: at(5) }), lost('y', 'g2', 'leaseLapsed', { notBeforeAt: at(3) })),
        ),
        b: batch(entry('other', waiting('x', 'g3', { endsAt: at(1) }))),
        c: batch(entry('me', granted('x', 'g1', 1)), gap),
        d: batch(entry('me', granted('z', 'g4', 2, { endsAt: at(9) }))),
      });
      expectObservable(lockDue$(batch$, 'me')).toBe('x-----y', {
        x: { kind: 'lockDue', at: 3000 },
        y: { kind: 'lockDue', at: 9000 },
      });
    });
  });
});

describe('lockPush$', () => {
  it('tells a waiter of its grant, and says nothing of one that was granted at once', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a-b-c', {
        a: batch(entry('me', granted('x', 'g1', 1))),
        b: batch(entry('other', released('x', 'g1'), granted('x', 'g2', 2, { waitedMs: 40, maxHoldMs: 100 }))),
        c: batch(published('me', granted('x', 'g3', 3, { waitedMs: 1 }))),
      });
      expectObservable(lockPush$(batch$)).toBe('--p--', {
        p: [
          { kind: 'lockGranted', session: 's-g2', grant: 'g2', fence: 2, validMs: 15_000, maxHoldMs: 100, epoch: 'e' },
        ],
      });
    });
  });

  it('tells one end of a wait and one grant, however many locks it is about, and the loss of each lock', () => {
    marbles(({ hot, expectObservable }) => {
      const locks = ['x', 'y'];
      const batch$ = hot('a-b-c', {
        a: batch(
          entry('me', granted('x', 'g1', 4, { locks, waitedMs: 1 }), granted('y', 'g1', 4, { locks, waitedMs: 1 })),
        ),
        b: batch(entry('me', waitEnded('x', 'g2', 'timeout', { locks }), waitEnded('y', 'g2', 'timeout', { locks }))),
        c: batch(entry('me', lost('x', 'g1', 'broken', { locks }), lost('y', 'g1', 'broken', { locks }))),
      });
      expectObservable(lockPush$(batch$)).toBe('p-q-r', {
        p: [{ kind: 'lockGranted', session: 's-g1', grant: 'g1', fence: 4, validMs: 15_000, epoch: 'e' }],
        q: [{ kind: 'lockWaitEnded', session: 's-g2', grant: 'g2', reason: 'timeout' }],
        r: locks.map((name) => ({ kind: 'lockLost', session: 's-g1', name, grant: 'g1', fence: 7, reason: 'broken' })),
      });
    });
  });

  it('does not tell a session of what ended with itself', () => {
    marbles(({ hot, expectObservable }) => {
      const batch$ = hot('a', { a: batch(entry('me', lost('x', 'g1', 'sessionLost'), released('y', 'g2'))) });
      expectObservable(lockPush$(batch$)).toBe('-');
    });
  });
});

describe('locks$', () => {
  const names = (list: readonly Holding[] = []): string[] => list.map(({ grant }) => grant);
  const shown = (locks: Locks): Record<string, string[][]> =>
    Object.fromEntries([...locks].map(([name, { holders, waiters }]) => [name, [names(holders), names(waiters)]]));

  it('knows who holds, who waits and who is next, and forgets what nobody uses', () => {
    const seen: Record<string, string[][]>[] = [];
    marbles(({ hot, flush }) => {
      const batch$ = hot('a-b-c-d', {
        a: batch(entry('me', granted('x', 'g1', 1), waiting('x', 'g2'), waiting('x', 'g3'))),
        b: batch(entry('me', waitEnded('x', 'g2', 'timeout'))),
        c: batch(entry('me', lost('x', 'g1', 'broken'), granted('x', 'g3', 2, { waitedMs: 3 }))),
        d: batch(entry('me', released('x', 'g3', 2))),
      });
      locks$(batch$).subscribe((locks) => seen.push(shown(locks)));
      flush();
    });
    expect(seen).toEqual([{ x: [['g1'], ['g2', 'g3']] }, { x: [['g1'], ['g3']] }, { x: [['g3'], []] }, {}]);
  });

  it('tells who waits for whom, by owner: for holders and for those ahead', () => {
    const events = [
      granted('x', 'g1', 1),
      granted('y', 'g2', 2, { owner: 'o' }),
      waiting('x', 'g3'),
      waiting('x', 'g4'),
      waiting('y', 'g1'),
    ];
    const locks = lockView(
      new Map(),
      events.map(([type, data]) => ({ type, data })),
    );
    const graph = Object.fromEntries([...waitsFor(locks)].map(([owner, others]) => [owner, [...others]]));
    expect(graph).toEqual({
      's-g3\0': ['s-g1\0'],
      's-g4\0': ['s-g1\0', 's-g3\0'],
      's-g1\0': ['s-g2\0o'],
    });
  });
});
