import { check, scenario } from './scenario.js';
import { checkFeed, onStage, positionOf, sleep, watchAll } from './support.js';

interface Lengths {
  readonly holeMs: number;
  readonly readBlockMs: number;
}

/** PING of the subscriber every 5 s with 3 s to answer, twice, and the new link. */
const noticeMs = 20_000;

export const silentLink = scenario<Lengths>({
  id: 'F14',
  title:
    'the link to Redis dies silently: it is declared dead, what may be missing is a gap in the log, service resumes',
  short: { holeMs: 12_000, readBlockMs: 400 },
  full: { holeMs: 300_000, readBlockMs: 2000 },
  run: ({ holeMs, readBlockMs }) =>
    onStage(async (stage) => {
      const { admin, tap } = stage;
      const { daemon, link } = await stage.behind({ 'log.readBlockMs': readBlockMs, 'redis.commandTimeoutMs': 1000 });
      const watcher = await watchAll(daemon);
      const say = (n: number): Promise<number> => admin.publish('signalbox:default:x.y', JSON.stringify({ n }));
      await say(1);
      await watcher.next(({ op, event }) => op === 'event' && event.data.n === 1, 10_000);
      const from = Date.now();
      // Dropped, not reset: open links stay lost for ever, only new ones get through afterwards.
      link.blackHole();
      await say(2);
      await sleep(holeMs);
      link.heal();
      const gap = await watcher.next(({ op, event }) => op === 'event' && event.type === 'ingress.gap', noticeMs);
      const { since, until } = gap.event.data;
      check(
        Date.parse(since) <= from + 1000,
        `the gap begins at ${since}, the link died at ${new Date(from).toISOString()}`,
      );
      check(Date.parse(until) >= Date.parse(since), `the gap ends at ${until}`);
      await say(3);
      await watcher.next(({ op, event }) => op === 'event' && event.data.n === 3, 10_000);
      const { status } = await fetch(`${daemon.http}/healthz`);
      check(status === 200, `healthz ${status} after the link is back`);
      const received = await checkFeed(tap, [watcher]);
      return `silent for ${holeMs / 1000} s; gap ${since} to ${until}, ${received} events equal the log up to ${positionOf(watcher)}`;
    }),
});
