import { startRemote } from '../support/remote.js';
import type { Any } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, refs } from './support.js';

interface Lengths {
  readonly graceMs: number;
  readonly good: number;
}

export const poison = scenario<Lengths>({
  id: 'A14',
  title:
    'a task that kills its worker three times ends in the dead letter with the story of it; good tasks are unaffected',
  short: { graceMs: 200, good: 20 },
  full: { graceMs: 5000, good: 500 },
  run: ({ graceMs, good }) =>
    onStage(async (stage) => {
      const daemon = await stage.daemon({ 'session.graceMs': graceMs });
      const clerk = await daemon.session({ agent: 'clerk', ttlMs: 300_000 });
      const tasks = Array.from({ length: good }, (_, n) => ({ payload: { n } }));
      await clerk.call('queue.enqueue', {
        queue: 'q',
        tasks: [{ payload: { poison: true }, task: 'poison', maxAttempts: 3, priority: 100 }],
      });
      let done = 0;
      const finish = async (wire: Any, from: number): Promise<void> => {
        const mine = wire.tasks().slice(from);
        const healthy = mine.filter(({ task }: Any) => task !== 'poison');
        if (healthy.length > 0) await wire.call('queue.complete', { tasks: refs(healthy) });
        done += healthy.length;
      };
      // Three workers one after the other, each of which the poison ends.
      for (let crash = 0; crash < 3; crash++) {
        const worker = await startRemote(daemon.url);
        await worker.wire.call('session.open', { agent: `worker-${crash}`, ttlMs: 60_000 });
        await worker.wire.call('queue.work', { queue: 'q', credit: 1 });
        const [task] = await worker.wire.tasksUntil(1, graceMs * 3 + 10_000);
        check(task.task === 'poison' && task.attempt === crash + 1, `attempt ${task.attempt} of ${task.task}`);
        worker.kill();
      }
      await clerk.until(() => true);
      const { state } = await clerk.call('queue.result', { task: 'poison', waitMs: graceMs * 3 + 10_000 });
      check(state === 'dead', `the poison is ${state} after its third crash`);
      const dead = await clerk.call('queue.get', { task: 'poison' });
      const story = dead.history.map(({ outcome, holder }: Any) => `${outcome} ${holder.agent}`);
      check(
        JSON.stringify(story) === JSON.stringify([0, 1, 2].map((n) => `sessionLost worker-${n}`)),
        `its history: ${story.join(', ')}`,
      );
      check(
        dead.history.every(({ startedAt, endedAt }: Any) => startedAt <= endedAt) && dead.error.code === 'WORKER_LOST',
        'with times and error',
      );
      check(dead.payload.poison === true, 'the payload is kept');

      await clerk.call('queue.enqueue', { queue: 'q', tasks });
      await clerk.call('queue.work', { queue: 'q', credit: 10 });
      for (let seen = 0; done < good; ) {
        await clerk.until(() => clerk.tasks().length > seen, 10_000);
        const from = seen;
        seen = clerk.tasks().length;
        await finish(clerk, from);
      }
      check(
        clerk.tasks().every(({ attempt }: Any) => attempt === 1),
        'good tasks are not charged',
      );
      const { count } = await clerk.call('queue.redrive', { queue: 'q', state: 'dead', filter: {} });
      check(count === 1, `${count} tasks redriven`);
      const back = await clerk.until(() => clerk.tasks().find(({ task }: Any) => task === 'poison'), 10_000);
      check((back as Any).attempt === 1, 'a redrive sets the attempts back');
      await clerk.call('queue.complete', { tasks: refs([back as Any]) });
      await checkRest(stage);
      return `dead after 3 crashes (${story.join(', ')}); ${good} good tasks untouched; redriven from attempt 1`;
    }),
});
