import { check, scenario } from './scenario.js';
import { checkFeed, checkRest, onStage, publishOnce, sleep, watchAll } from './support.js';

interface Lengths {
  readonly readBlockMs: number;
}

/** The longest pause between attempts to reach Redis, and what the readers need on top. */
const backMs = 7000;

export const redisOutage = scenario<Lengths>({
  id: 'F12',
  title: 'Redis is away for three times the block time: without a restart everything reads on when it is back',
  short: { readBlockMs: 400 },
  full: { readBlockMs: 2000 },
  run: ({ readBlockMs }) =>
    onStage(async (stage) => {
      const { daemon, redis, tap } = stage;
      const one = await daemon({ 'log.readBlockMs': readBlockMs });
      const watcher = await watchAll(one);
      const agent = await one.session({ agent: 'a', ttlMs: 60_000 });
      await agent.call('queue.work', { queue: 'q', credit: 1 });
      await publishOnce(agent, 'before');
      await redis.kill();
      await sleep(3 * readBlockMs);
      const ready = await fetch(`${one.http}/readyz`);
      check(ready.status !== 200, 'readyz calls a daemon ready whose Redis is away');
      await redis.restart();
      const from = performance.now();
      await publishOnce(agent, 'after');
      await watcher.next(({ op, event }) => op === 'event' && event.data.id === 'after', backMs);
      await agent.call('queue.enqueue', { queue: 'q', tasks: [{ payload: 1 }] });
      const [task] = await agent.tasksUntil(1, backMs);
      const ms = Math.round(performance.now() - from);
      check(ms < backMs, `consuming again after ${ms} ms`);
      await agent.call('queue.complete', { tasks: [{ task: task.task, fence: task.fence }] });
      const received = await checkFeed(tap, [watcher]);
      await checkRest(stage);
      return `away for ${3 * readBlockMs} ms; events and tasks again ${ms} ms after it was back, ${received} events equal the log`;
    }),
});
