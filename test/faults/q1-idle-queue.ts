import { check, scenario } from './scenario.js';
import { checkRest, onStage, type Stage, sleep } from './support.js';

interface Lengths {
  readonly delayMs: number;
  readonly killAtMs: number;
  readonly holeAtMs: number;
  readonly holeMs: number;
  readonly stopMs: number;
  /** The delay of a queue that nothing happens to, with nothing else going on; 0 leaves it out. */
  readonly idleMs: number;
  readonly slackMs: number;
}

const settings = { 'redis.commandTimeoutMs': 1000, 'log.readBlockMs': 500 };

/** A delayed task, one idle worker, `harm` meanwhile: answers how late it came. */
async function fires(
  stage: Stage,
  delayMs: number,
  slackMs: number,
  harm: (link: Awaited<ReturnType<Stage['behind']>>['link']) => Promise<void>,
): Promise<number> {
  const { daemon, link } = await stage.behind(settings);
  const agent = await daemon.session({ agent: 'w', ttlMs: 600_000 });
  await agent.call('queue.work', { queue: 'q', credit: 1 });
  const enqueuedAt = performance.now();
  const [made] = (await agent.call('queue.enqueue', { queue: 'q', tasks: [{ payload: 1, delayMs }] })).tasks;
  await harm(link);
  const [task] = await agent.tasksUntil(1, delayMs + 30_000);
  const lateMs = performance.now() - enqueuedAt - delayMs;
  check(task.task === made.task, 'another task came');
  check(lateMs > -20 && lateMs < slackMs, `the task came ${Math.round(lateMs)} ms late`);
  await agent.call('queue.complete', { tasks: [{ task: task.task, fence: task.fence }] });
  await daemon.kill();
  return Math.round(lateMs);
}

export const idleQueue = scenario<Lengths>({
  id: 'Q1',
  title: 'an idle queue fires its delayed task although its links broke meanwhile',
  short: { delayMs: 2500, killAtMs: 300, holeAtMs: 600, holeMs: 900, stopMs: 800, idleMs: 0, slackMs: 1000 },
  full: {
    delayMs: 20_000,
    killAtMs: 5000,
    holeAtMs: 8000,
    holeMs: 6000,
    stopMs: 10_000,
    idleMs: 600_000,
    slackMs: 1000,
  },
  run: (lengths) =>
    onStage(async (stage) => {
      const { delayMs, killAtMs, holeAtMs, holeMs, stopMs, idleMs, slackMs } = lengths;
      const halfOpen = await fires(stage, delayMs, slackMs, async (link) => {
        await sleep(killAtMs);
        await stage.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        await stage.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
        await sleep(holeAtMs - killAtMs);
        link.stall('up');
        link.stall('down');
        await sleep(holeMs);
        link.heal();
      });
      const stopped = await fires(stage, delayMs, slackMs, async () => {
        await sleep(killAtMs);
        await stage.redis.kill();
        await sleep(stopMs);
        await stage.redis.restart();
      });
      const idle = idleMs > 0 ? await fires(stage, idleMs, slackMs, async () => undefined) : undefined;
      await checkRest(stage);
      return `late by ${halfOpen} ms (killed, half open), ${stopped} ms (Redis stopped)${idle === undefined ? '' : `, ${idle} ms (idle ${idleMs / 1000} s)`}`;
    }),
});
