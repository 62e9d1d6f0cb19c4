import { describe, expect, test } from 'vitest';
import { judgeRecord, type LoggedEpoch, type Received } from './oracle.js';

const events = (epoch: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => ({
    epoch,
    offset: from + i,
    type: (from + i) % 2 ? 'odd' : 'even',
    data: { n: from + i },
  }));
const log: LoggedEpoch[] = [{ epoch: 'a', first: 1, events: events('a', 1, 8) }];
const event = (offset: number): Received => ({
  kind: 'event',
  offset,
  type: offset % 2 ? 'odd' : 'even',
  data: { n: offset },
});
const start: Received = { kind: 'from', position: 'a:0' };
const all = [1, 2, 3, 4, 5, 6, 7, 8].map(event);
const problems = (record: Received[], options = {}, of = log) => judgeRecord(record, of, options).problems;

describe('the sequence oracle', () => {
  test('takes the log itself, in one go or over reconnects', () => {
    expect(problems([start, ...all])).toEqual([]);
    expect(problems([start, ...all.slice(0, 3), { kind: 'from', position: 'a:3' }, ...all.slice(3)])).toEqual([]);
    expect(problems([start, ...all.slice(0, 3)], { complete: false })).toEqual([]);
  });

  test.each([
    ['a hole', [...all.slice(0, 3), ...all.slice(4)]],
    ['a repeat', [...all.slice(0, 3), ...all.slice(2)]],
    ['another order', [event(2), event(1), ...all.slice(2)]],
    ['a missing end', all.slice(0, 7)],
    ['an event that never was', [...all, event(9)]],
    ['other data', [...all.slice(0, 7), { kind: 'event', offset: 8, type: 'even', data: { n: 0 } }]],
    ['a position ahead of an event', [...all.slice(0, 3), { kind: 'position', position: 'a:5' }, ...all.slice(3)]],
    [
      'a gap nobody caused',
      [...all.slice(0, 2), { kind: 'gap', from: 'a:2', to: 'a:4', lost: 2, reason: 'trimmed' }, ...all.slice(4)],
    ],
  ] as [string, Received[]][])('refuses %s', (_, record) => {
    expect(problems([start, ...record])).not.toEqual([]);
  });

  test('takes a gap that may be and says the right count', () => {
    const gap = (lost: number): Received => ({ kind: 'gap', from: 'a:2', to: 'a:4', lost, reason: 'trimmed' });
    const record = (lost: number) => [start, ...all.slice(0, 2), gap(lost), ...all.slice(4)];
    expect(judgeRecord(record(2), log, { gaps: ['trimmed'] })).toEqual({ problems: [], events: 6, gaps: 1, lost: 2 });
    expect(problems(record(3), { gaps: ['trimmed'] })).not.toEqual([]);
  });

  test('a filter leaves out what was not asked for, and nothing else', () => {
    const wants = ({ type }: { type: string }) => type === 'odd';
    const odd = all.filter((_, i) => i % 2 === 0);
    expect(problems([start, ...odd, { kind: 'position', position: 'a:8' }], { wants })).toEqual([]);
    expect(problems([start, ...odd.slice(1)], { wants })).not.toEqual([]);
    expect(problems([start, ...all], { wants })).not.toEqual([]);
  });

  test('a new epoch must be told in place; what a rewind took is a gap', () => {
    const rewound: LoggedEpoch[] = [...log, { epoch: 'b', first: 7, events: events('b', 7, 9) }];
    const after = [7, 8, 9].map(event);
    const told: Received = { kind: 'position', position: 'b:6' };
    const fork: Received = { kind: 'gap', from: 'a:8', to: 'b:6', lost: 2, reason: 'fork' };
    expect(problems([start, ...all.slice(0, 6), told, ...after], {}, rewound)).toEqual([]);
    expect(problems([start, ...all, fork, ...after], { gaps: ['fork'] }, rewound)).toEqual([]);
    expect(problems([start, ...all, told, ...after], {}, rewound)).not.toEqual([]);
    expect(problems([start, ...all, event(9)], {}, rewound)).not.toEqual([]);
  });
});
