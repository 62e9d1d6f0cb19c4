import type { Line } from '../line.js';

/** Limits beside rate-limiter-flexible, which counts one number a key in a fixed window and knows no reservations. */
export const limitLines: readonly Line[] = [
  {
    id: 'limit-reserve',
    subject: 'limit',
    rows: [
      {
        value: 'rate',
        title: 'limit.reserve, 100 at once',
        unit: 'asks/s',
        target: { ratio: 0.7, better: 'more' },
      },
    ],
    async measure(side, { load, limitTakes: tasks }) {
      const { value: took, cpu } = await side.spending(() => side.ask('take', tasks, load.inFlight));
      if (side.name === 'signalbox') await side.ask('giveBack', load.inFlight);
      return { values: { rate: tasks / took }, tasks, cpu };
    },
  },
  {
    id: 'limit-settle',
    subject: 'limit',
    rows: [{ value: 'rate', title: 'limit.reserve and settle, 100 at once', unit: 'asks/s' }],
    async measure(side, { load, limitTakes: tasks }) {
      if (side.name !== 'signalbox') return { values: {} };
      return { values: { rate: tasks / (await side.ask('takeAndSettle', tasks, load.inFlight)) } };
    },
  },
];
