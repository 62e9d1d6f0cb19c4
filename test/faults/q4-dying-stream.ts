import { startProxy } from '../support/proxy.js';
import { startRemote } from '../support/remote.js';
import { type Any, Wire } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, refs, sleep } from './support.js';

interface Lengths {
  readonly receiptMs: number;
}

/** The task that a silent worker got goes to another one, refunded, as soon as its receipt is missing. */
async function movesOn(
  dying: Any,
  other: Wire,
  queue: string,
  receiptMs: number,
  silence: () => void,
): Promise<number> {
  await dying.call('queue.work', { queue, credit: 1, worker: 'dying' });
  silence();
  await sleep(50);
  const [made] = (await other.call('queue.enqueue', { queue, tasks: [{ payload: 1 }] })).tasks;
  await sleep(Math.min(100, receiptMs / 4));
  check(
    (await other.call('queue.get', { task: made.task })).state === 'active',
    'the task was not given to the dying worker',
  );
  const from = performance.now();
  const seen = other.tasks().length;
  await other.call('queue.work', { queue, credit: 1 });
  const task = (await other.tasksUntil(seen + 1, receiptMs * 3 + 5000)).at(-1);
  const ms = performance.now() - from;
  check(
    task.task === made.task && task.attempt === 1,
    `attempt ${task.attempt} of ${task.task}: what was not delivered is not charged`,
  );
  const { history, refunds } = await other.call('queue.get', { task: task.task });
  check(history[0].outcome === 'undelivered' && refunds === 1, `shown as ${history[0].outcome}, ${refunds} refunds`);
  await other.call('queue.complete', { tasks: refs([task]) });
  return Math.round(ms);
}

export const dyingStream = scenario<Lengths>({
  id: 'Q4',
  title: 'a task pushed into a dying stream goes to another worker within seconds, refunded and shown as undelivered',
  short: { receiptMs: 600 },
  full: { receiptMs: 5000 },
  run: ({ receiptMs }) =>
    onStage(async (stage) => {
      const daemon = await stage.daemon({ 'session.receiptMs': receiptMs });
      const other = await daemon.session({ agent: 'other', ttlMs: 120_000 });
      const frozen = await startRemote(daemon.url);
      await frozen.wire.call('session.open', { agent: 'frozen', ttlMs: 120_000 });
      const stopped = await movesOn(frozen.wire, other, 'frozen', receiptMs, () => frozen.freeze());
      frozen.kill();

      const link = await startProxy(Number(new URL(daemon.url).port));
      const holed = await Wire.session(`ws://127.0.0.1:${link.port}/v1/ws`, { agent: 'holed', ttlMs: 120_000 });
      const lost = await movesOn(holed, other, 'holed', receiptMs, () => link.blackHole());
      await link.close();
      await checkRest(stage);
      return `after ${stopped} ms (frozen process) and ${lost} ms (black hole), receipt ${receiptMs} ms`;
    }),
});
