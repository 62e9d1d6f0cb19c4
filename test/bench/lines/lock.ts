import type { Line } from '../line.js';
import { median, percentile } from '../stats.js';

/** Locks beside redlock, which waits by asking again and whose grants are nobody's event. */
export const lockLines: readonly Line[] = [
  {
    id: 'lock-hand-off',
    subject: 'lock',
    // Most of it is redlock's polling and its pauses.
    rounds: 3,
    rows: [
      { value: 'p50', title: 'release → next holder, idle, p50', unit: 'ms', target: { amount: 2, better: 'less' } },
      {
        value: 'trips',
        title: 'the same, in trips enqueue → agent',
        unit: 'trips',
        target: { amount: 1.5, better: 'less' },
      },
    ],
    async measure(side, { load, handOffs }) {
      const p50 = median(await side.ask('handOff', handOffs));
      if (side.name !== 'signalbox') return { values: { p50 } };
      return { values: { p50, trips: p50 / median(await side.ask('trip', handOffs, load)) } };
    },
  },
  {
    id: 'lock-pairs',
    subject: 'lock',
    rows: [
      {
        value: 'rate',
        title: 'acquire+release, 100 at once',
        unit: 'locks/s',
        target: { ratio: 0.8, better: 'more' },
      },
    ],
    async measure(side, { load, lockPairs }) {
      return { values: { rate: lockPairs / (await side.ask('pairs', lockPairs, load.inFlight)) } };
    },
  },
  {
    id: 'lock-crowd',
    subject: 'lock',
    rounds: 3,
    rows: [{ value: 'ms', title: 'a hand-off, 500 waiters', unit: 'ms', target: { amount: 0.5, better: 'less' } }],
    async measure(side, { lockWaiters }) {
      return { values: { ms: await side.ask('crowd', lockWaiters) } };
    },
  },
  {
    id: 'lock-check',
    subject: 'lock',
    rows: [
      { value: 'p50', title: 'lock.check, p50', unit: 'ms' },
      { value: 'p99', title: 'lock.check, p99', unit: 'ms' },
    ],
    async measure(side, { lockChecks }) {
      if (side.name !== 'signalbox') return { values: {} };
      const took = await side.ask('check', lockChecks);
      return { values: { p50: median(took), p99: percentile(took, 0.99) } };
    },
  },
];
