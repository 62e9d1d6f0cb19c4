import { check, scenario } from './scenario.js';
import { checkFeed, onStage, rssOf, sleep, watchAll } from './support.js';

interface Lengths {
  readonly frozenMs: number;
  readonly bytesPerSecond: number;
  /** What Redis lets a slow subscriber fall behind: hard bytes, soft bytes, seconds. */
  readonly limit: string;
}

export const slowSubscriber = scenario<Lengths>({
  id: 'F22',
  title: 'the daemon stands still while services publish, and Redis cuts it off: the loss is an event with its times',
  short: { frozenMs: 3000, bytesPerSecond: 1_000_000, limit: 'pubsub 262144 65536 1' },
  full: { frozenMs: 70_000, bytesPerSecond: 1_000_000, limit: 'pubsub 33554432 8388608 60' },
  run: ({ frozenMs, bytesPerSecond, limit }) =>
    onStage(async ({ daemon, admin, tap }) => {
      await admin.config('SET', 'client-output-buffer-limit', limit);
      const one = await daemon({ 'log.bytesMax': 256 * 1024 * 1024 });
      const watcher = await watchAll(one, 'new', ['ingress.>', 'late.>']);
      const pad = 'x'.repeat(8000);
      const rest = rssOf(one.pid);
      const from = Date.now();
      one.process.kill('SIGSTOP');
      let published = 0;
      while (Date.now() - from < frozenMs) {
        for (let i = 0; i < bytesPerSecond / 8000 / 20; i++)
          void admin.publish('signalbox:default:flood.said', JSON.stringify({ n: published++, pad }));
        await sleep(50);
      }
      const until = Date.now();
      one.process.kill('SIGCONT');
      const gap = await watcher.next(({ op, event }) => op === 'event' && event.type === 'ingress.gap', 30_000);
      const { since, until: ends } = gap.event.data;
      check(
        Date.parse(since) <= from + 6000,
        `the gap begins ${since}, the daemon stood still from ${new Date(from).toISOString()}`,
      );
      check(
        Date.parse(ends) >= until - 1000,
        `the gap ends ${ends}, the daemon went on at ${new Date(until).toISOString()}`,
      );
      await admin.publish('signalbox:default:late.said', '{"n":1}');
      await watcher.event('late.said');
      await tap.poll();
      const arrived = tap.standing.filter(({ type }) => type === 'flood.said').map(({ data }) => data.n as number);
      check(
        arrived.every((n, i) => i === 0 || n > arrived[i - 1]!),
        'what arrived is in order, none twice',
      );
      const wants = ({ type }: { type: string }) => type.startsWith('ingress.') || type.startsWith('late.');
      await checkFeed(tap, [watcher], { wants });
      await sleep(1000);
      const grown = Math.round((rssOf(one.pid) - rest) / 1024 / 1024);
      check(grown < 100, `memory of the daemon grew by ${grown} MiB`);
      return `still for ${frozenMs / 1000} s, ${published - arrived.length} of ${published} lost, announced ${since} to ${ends}; ${grown} MiB more`;
    }),
});
