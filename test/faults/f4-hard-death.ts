import { check, scenario } from './scenario.js';
import { checkFeed, onStage, positionOf, sleep, watchAll } from './support.js';

interface Lengths {
  readonly rounds: number;
  readonly events: number;
}

export const hardDeath = scenario<Lengths>({
  id: 'F4',
  title: 'a daemon is killed while events are published; its watcher resumes on another one and misses nothing',
  short: { rounds: 2, events: 60 },
  full: { rounds: 10, events: 2000 },
  run: ({ rounds, events }) =>
    onStage(async ({ daemon, tap }) => {
      const steady = await daemon();
      const publisher = await steady.session({ agent: 'p', ttlMs: 60_000 });
      const records: Awaited<ReturnType<typeof watchAll>>[] = [];
      let received = 0;
      for (let round = 0; round < rounds; round++) {
        const dying = await daemon();
        const from: string = records.length === 0 ? 'new' : positionOf(records.at(-1)!);
        records.push(await watchAll(dying, from));
        for (let n = 0; n < events; n++) {
          await publisher.call('feed.publish', { events: [{ type: 'a.b', data: { round, n } }] });
          // In the middle of it, with events on their way.
          if (n === Math.floor(events / 2)) dying.process.kill('SIGKILL');
        }
        await records.at(-1)!.until(() => records.at(-1)!.closed);
        records.push(await watchAll(steady, positionOf(records.at(-1)!)));
        await sleep(100);
        received = await checkFeed(tap, records);
        records.at(-1)!.cut();
      }
      check(received >= rounds * events, `${received} events received`);
      return `${rounds} daemons killed, ${received} events in order, none missed, none twice`;
    }),
});
