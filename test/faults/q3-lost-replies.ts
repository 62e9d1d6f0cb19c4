import { type Any, type Wire, WireFailure } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, logged, onStage, refs, sleep } from './support.js';

interface Lengths {
  readonly commandTimeoutMs: number;
}

/** The code of a call whose reply is lost on the way; it has to end by itself. */
async function lostCode(wire: Wire, limitMs: number, op: string, params: Any): Promise<string> {
  const sentAt = performance.now();
  try {
    const ok = await wire.call(op, params);
    throw new Error(`${op} was answered: ${JSON.stringify(ok)}`);
  } catch (error) {
    if (!(error instanceof WireFailure)) throw error;
    const ms = performance.now() - sentAt;
    check(ms < limitMs, `${op} ended after ${Math.round(ms)} ms`);
    check(['TIMEOUT', 'UNAVAILABLE'].includes(error.code), `${op} ended with ${error.code}`);
    return error.code;
  }
}

async function again(wire: Wire, op: string, params: Any): Promise<Any> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await wire.call(op, params);
    } catch (error) {
      if (!(error instanceof WireFailure) || attempt === 100 || !['TIMEOUT', 'UNAVAILABLE'].includes(error.code))
        throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

export const lostReplies = scenario<Lengths>({
  id: 'Q3',
  title:
    'the request is carried out, its reply is lost: nothing happens twice, nothing hangs, no credit is taken twice',
  short: { commandTimeoutMs: 500 },
  full: { commandTimeoutMs: 2000 },
  run: ({ commandTimeoutMs }) =>
    onStage(async (stage) => {
      const settings = { 'redis.commandTimeoutMs': commandTimeoutMs };
      const { daemon, link } = await stage.behind(settings);
      const far = await (await stage.daemon(settings)).session({ agent: 'far', ttlMs: 60_000 });
      const agent = await daemon.session({ agent: 'near', ttlMs: 30_000 });
      const limitMs = commandTimeoutMs + 2000;

      const keyed = { queue: 'keyed', tasks: [{ payload: { n: 1 }, key: 'the-key' }] };
      let swallowed = link.swallowReply('the-key');
      const codes = [await lostCode(agent, limitMs, 'queue.enqueue', keyed)];
      await swallowed;
      const [repeated] = (await again(agent, 'queue.enqueue', keyed)).tasks;
      check(repeated.deduplicated === true, `enqueued again: ${JSON.stringify(repeated)}`);
      const listed = (await far.call('queue.list', { queue: 'keyed', state: 'ready' })).tasks;
      check(listed.length === 1, `${listed.length} tasks for one key`);

      await agent.call('queue.work', { queue: 'work', credit: 1, worker: 'the-worker' });
      swallowed = link.swallowReply('the-worker');
      await far.call('queue.enqueue', { queue: 'work', tasks: [{ payload: 1 }, { payload: 2 }, { payload: 3 }] });
      await swallowed;
      for (let done = 1; done <= 3; done++) {
        const task = (await agent.tasksUntil(done)).at(-1);
        check(task.attempt === 1, `attempt ${task.attempt}: what nobody received is not charged`);
        await sleep(commandTimeoutMs);
        check(agent.tasks().length === done, 'two tasks for one credit');
        await again(agent, 'queue.complete', { tasks: refs([task]) });
      }

      const [claimed] = (await agent.call('queue.claim', { queue: 'keyed' })).tasks;
      const result = { tasks: [{ task: claimed.task, fence: claimed.fence, result: 'the-result' }] };
      swallowed = link.swallowReply('the-result');
      codes.push(await lostCode(agent, limitMs, 'queue.complete', result));
      await swallowed;
      check(
        (await again(agent, 'queue.complete', result)).tasks[0].state === 'completed',
        'the repeat of a completion',
      );
      const completions = (await logged(stage.tap, 'task.completed')).filter(({ data }) => data.task === claimed.task);
      check(completions.length === 1, `completed ${completions.length} times`);

      swallowed = link.swallowReply(agent.opened.session);
      codes.push(await lostCode(agent, limitMs, 'ping', {}));
      await swallowed;
      await again(agent, 'ping', {});
      await checkRest(stage);
      return `replies lost on enqueue, claim, complete and ping ended with ${codes.join(', ')}; nothing twice`;
    }),
});
