import { expect, test } from 'vitest';
import type { Line, Sample } from './line.js';
import { resultsOf, table } from './report.js';

const line = (rows: Line['rows'], subject: Line['subject'] = 'lock'): Line => ({
  id: 'line',
  subject,
  rows,
  measure: () => Promise.reject(new Error('not measured here')),
});
const samples = (...values: number[]): Sample[] => values.map((value) => ({ values: { value } }));
const row = { value: 'value', title: 'a thing', unit: 'ms' } as const;

test('a ratio is held against the rival, an amount against Signalbox alone', () => {
  const both = { signalbox: samples(3, 2, 100), redlock: samples(4) };
  const reached = (target: NonNullable<Line['rows'][number]['target']>): boolean | undefined =>
    resultsOf(line([{ ...row, target }]), both, [])[0]!.reached;
  expect(reached({ ratio: 0.75, better: 'less' })).toBe(true);
  expect(reached({ ratio: 0.74, better: 'less' })).toBe(false);
  expect(reached({ ratio: 0.75, better: 'more' })).toBe(true);
  expect(reached({ amount: 3, better: 'less' })).toBe(true);
  expect(reached({ amount: 2.9, better: 'less' })).toBe(false);
  expect(reached({ amount: 3.1, better: 'more' })).toBe(false);
});

test('a rival that is not installed leaves ratios open, and the table says so', () => {
  const alone = { signalbox: samples(3) };
  const [ratio, amount] = resultsOf(
    line([
      { ...row, target: { ratio: 0.8, better: 'more' } },
      { ...row, target: { amount: 2, better: 'less' } },
    ]),
    alone,
    [],
  );
  expect(ratio).toMatchObject({ beside: 'redlock', installed: false });
  expect(ratio).not.toHaveProperty('reached');
  expect(amount!.reached).toBe(false);
  const [, first, second] = table([ratio!, amount!]).split('\n');
  expect(first).toMatch(/a thing +not installed +redlock +3\.00 +ms +≥ 0\.8 ×/);
  expect(second).toContain('SHORT');
});

test('what a rival has not is blank; what Signalbox did not measure is an error', () => {
  const none = { signalbox: samples(3), redlock: [{ values: {} }] };
  expect(resultsOf(line([row]), none, [])[0]).not.toHaveProperty('rival');
  expect(() => resultsOf(line([{ ...row, value: 'other' }]), none, [])).toThrow('measured no other of Signalbox');
});

test('what a backlog costs is held against the same side without it', () => {
  const against = { line: 'before', value: 'value', ratio: 0.8, named: '10 k' };
  const [before] = resultsOf({ ...line([row], 'queue'), id: 'before' }, { signalbox: samples(10) }, []);
  const behind = (value: number) =>
    resultsOf(line([{ ...row, against }], 'queue'), { signalbox: samples(value) }, [before!])[0]!;
  expect(behind(8)).toMatchObject({ ratio: 0.8, reached: true });
  expect(behind(7.9).reached).toBe(false);
  expect(table([behind(8)])).toContain('≥ 0.8 of 10 k');
});

test('what a check costs is held against the same line without it', () => {
  const without = { value: 'without', title: 'without it', unit: 'tasks/s' };
  const against = { line: 'line', value: 'without', ratio: 0.9, named: 'without' };
  const both = { signalbox: [{ values: { without: 10, value: 9 } }] };
  expect(resultsOf(line([without, { ...row, against }], 'queue'), both, [])[1]).toMatchObject({
    ratio: 0.9,
    reached: true,
  });
});
