import { check, scenario } from './scenario.js';
import { checkFeed, onStage, publishOnce, sleep, watchAll } from './support.js';

interface Lengths {
  readonly times: number;
  readonly readBlockMs: number;
  readonly spacingMs: number;
}

export const deafReader = scenario<Lengths>({
  id: 'F11',
  title: 'all links to Redis are reset while idle, again and again: every event is delivered in time, health is honest',
  short: { times: 8, readBlockMs: 300, spacingMs: 400 },
  full: { times: 50, readBlockMs: 2000, spacingMs: 4000 },
  run: ({ times, readBlockMs, spacingMs }) =>
    onStage(async ({ daemon, admin, tap }) => {
      const one = await daemon({ 'log.readBlockMs': readBlockMs });
      const watcher = await watchAll(one);
      const publisher = await one.session({ agent: 'p', ttlMs: 600_000 });
      const limitMs = readBlockMs + 2000;
      const delays: number[] = [];
      for (let n = 0; n < times; n++) {
        await sleep(Math.random() * spacingMs);
        await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        const id = `event-${n}`;
        await publishOnce(publisher, id);
        const from = performance.now();
        await watcher.next(({ op, event }) => op === 'event' && event.data.id === id, limitMs);
        delays.push(Math.round(performance.now() - from));
        const { status } = await fetch(`${one.http}/healthz`);
        check(status === 200, `healthz says ${status} although the reader reads`);
      }
      const received = await checkFeed(tap, [watcher]);
      return `${times} resets, slowest event ${Math.max(...delays)} ms after its publication, ${received} events equal the log`;
    }),
});
