import { WireFailure } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkFeed, onStage, watchAll } from './support.js';

interface Lengths {
  readonly events: number;
}

export const lostHistory = scenario<Lengths>({
  id: 'F8(a)',
  title: 'after FLUSHALL offsets are handed out again: an old position is refused, a live watcher is told of the reset',
  short: { events: 200 },
  full: { events: 200 },
  run: ({ events }) =>
    onStage(async ({ daemon, admin, tap }) => {
      const one = await daemon();
      const publish = async (wire: Awaited<ReturnType<typeof one.session>>, count: number): Promise<void> => {
        for (let n = 0; n < count; n++) await wire.call('feed.publish', { events: [{ type: 'a.b', data: { n } }] });
      };
      await publish(await one.session({ agent: 'p', ttlMs: 60_000 }), events);
      const watcher = await watchAll(one, 'all');
      await watcher.until(() => watcher.events().length >= events);
      const old = `${watcher.from.split(':')[0]}:105`;
      await tap.poll();
      await admin.flushall();
      // Nobody writes: the reset must be noticed all the same.
      await watcher.next(({ op }) => op === 'gap', 10_000);
      const again = await one.session({ agent: 'p2', ttlMs: 60_000 });
      await publish(again, events);
      const late = await one.wire();
      let lost = '';
      try {
        const ok = await late.call('feed.subscribe', { types: ['>'], from: old });
        check(false, `the old position was taken: ${JSON.stringify(ok)}`);
      } catch (error) {
        if (!(error instanceof WireFailure)) throw error;
        check(error.code === 'POSITION_LOST', `refused with ${error.code}`);
        lost = error.error.details.reason;
        check(lost === 'fork', `refused as ${lost}`);
      }
      const gap = watcher.lines.find(({ op }) => op === 'gap');
      check(gap.reason === 'reset', `the live watcher was told ${JSON.stringify(gap)}`);
      const received = await checkFeed(tap, [watcher], { gaps: ['reset'] });
      return `an old position is refused (${lost}); a live watcher got a reset and ${received} events of both histories`;
    }),
});
