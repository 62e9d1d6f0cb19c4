import { setTimeout as wait } from 'node:timers/promises';
import type { Contestant } from '../contestant.js';
import type { Line, Row } from '../line.js';
import { needSockets, rssBytes, settledRssBytes } from '../process.js';
import type { Stream } from '../side.js';
import { median } from '../stats.js';
import { Subscribers } from '../subscribers.js';

const dataBytes = 100;

/** Publishes what `stream` says to everybody who reads; answers what they got and the seconds until the last had it. */
async function deliver(side: Contestant, subscribers: Subscribers, stream: Stream) {
  await subscribers.expect(stream.events);
  const startedAt = performance.now();
  const published = side.ask('publish', stream).then(() => performance.now());
  const [publishedAt, tally] = await Promise.all([published, subscribers.arrived()]);
  const endedAt = performance.now();
  return { tally, took: (endedAt - startedAt) / 1000, behindMs: Math.max(0, endedAt - publishedAt) };
}

type Sizes = 'fanOutEvents' | 'fanOutBurstEvents';

const fanOut = (id: string, events: Sizes, inBursts: boolean, rows: readonly Row[]): Line => ({
  id,
  subject: 'feed',
  rows,
  async measure(side, plan) {
    const { url, subscribe } = await side.ask('address');
    return Subscribers.use(url, plan.subscribers, async (subscribers) => {
      await subscribers.ask(subscribe);
      const burst = inBursts ? plan.load.batch : 1;
      const { tally, took } = await deliver(side, subscribers, { events: plan[events], burst, dataBytes });
      const { lines, messages, bytes } = tally;
      return { values: { rate: lines / took, bytes: bytes / lines, messages: lines / messages } };
    });
  },
});

const perMessage: Row = { value: 'messages', title: '  events a message', unit: 'events' };

const memory = (value: string, title: string, amount?: number): Row => ({
  value,
  title,
  unit: 'bytes',
  ...(amount === undefined ? {} : { target: { amount, better: 'less' } }),
});

const stopped = 10;
const othersReading = 40;
const callsEveryMs = 50;
const eventsPerSecond = 2000;

export const feedLines: readonly Line[] = [
  fanOut('fan-out', 'fanOutEvents', false, [
    {
      value: 'rate',
      title: 'fan-out to 1,000, one by one',
      unit: 'deliveries/s',
      target: { ratio: 0.8, better: 'more' },
    },
    { value: 'bytes', title: '  a delivered line', unit: 'bytes' },
    perMessage,
  ]),
  fanOut('fan-out-bursts', 'fanOutBurstEvents', true, [
    {
      value: 'rate',
      title: 'fan-out to 1,000, 50 a call',
      unit: 'deliveries/s',
      target: { amount: 1_000_000, better: 'more' },
    },
    perMessage,
  ]),
  {
    id: 'idle-connections',
    subject: 'feed',
    rounds: 1,
    warmUp: false,
    rows: [
      memory('connected', 'RSS of an idle connection', 25 * 1024),
      memory('subscribed', '  that is subscribed'),
      memory('session', '  and has a session'),
    ],
    async measure(side, { firstConnections, idleConnections: count }) {
      needSockets(firstConnections + count);
      const { url, subscribe, session } = await side.ask('address');
      return Subscribers.use(url, firstConnections, async () => {
        const before = await settledRssBytes(side.server);
        const each = async (): Promise<number> => ((await settledRssBytes(side.server)) - before) / count;
        return Subscribers.use(url, count, async (many) => {
          const connected = await each();
          if (subscribe === undefined) return { values: { connected } };
          await many.ask(subscribe);
          const subscribed = await each();
          await many.ask(session);
          return { values: { connected, subscribed, session: await each() } };
        });
      });
    },
  },
  {
    id: 'stopped-reader',
    subject: 'feed',
    rounds: 3,
    // What the feed itself needs is there only after a while of it.
    rows: [
      memory('bytes', 'RSS of a reader that stopped', 1024 * 1024),
      {
        value: 'behindMs',
        title: '  the others behind the publisher',
        unit: 'ms',
        target: { amount: 250, better: 'less' },
      },
    ],
    async measure(side, { stoppedForMs }) {
      const { url, subscribe } = await side.ask('address');
      const calls = stoppedForMs / callsEveryMs;
      const burst = (eventsPerSecond * callsEveryMs) / 1000;
      // Large enough that the kernel does not take it all in the place of the server.
      const stream = { events: calls * burst, burst, dataBytes: 900, everyMs: callsEveryMs };
      return Subscribers.use(url, stopped + othersReading, async (subscribers) => {
        await subscribers.ask(subscribe);
        const before = await rssWhile(side.server, () => deliver(side, subscribers, stream));
        await subscribers.stopReading(stopped);
        const after = await rssWhile(side.server, () => deliver(side, subscribers, stream));
        return { values: { bytes: (after.rss - before.rss) / stopped, behindMs: after.result.behindMs } };
      });
    },
  },
];

/** Resident memory of a process in the middle of the second half of what runs meanwhile: it goes up and down. */
async function rssWhile<T>(pid: number, run: () => Promise<T>): Promise<{ rss: number; result: T }> {
  const seen: number[] = [];
  let over = false;
  const watching = (async () => {
    while (!over) {
      seen.push(rssBytes(pid));
      await wait(100);
    }
  })();
  try {
    const result = await run();
    return { rss: median(seen.slice(Math.floor(seen.length / 2))), result };
  } finally {
    over = true;
    await watching;
  }
}
