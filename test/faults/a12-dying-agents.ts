import { startProxy } from '../support/proxy.js';
import { type Remote, startRemote } from '../support/remote.js';
import { type Any, Wire } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, logged, onStage, refs, type Stage } from './support.js';

interface Lengths {
  readonly graceMs: number;
  readonly ttlMs: number;
}

/** Two tasks in the hands of an agent that ends in some way; answers after how many milliseconds both were back. */
async function freed(
  stage: Stage,
  watcher: Wire,
  wire: Any,
  end: () => Promise<void> | void,
  reason: string,
): Promise<number> {
  const queue = `q-${Math.random().toString(36).slice(2)}`;
  await watcher.call('queue.enqueue', { queue, tasks: [{ payload: 1 }, { payload: 2 }] });
  const { tasks } = await wire.call('queue.claim', { queue, count: 2 });
  check(tasks.length === 2, 'the agent holds two tasks');
  const from = performance.now();
  await end();
  await watcher.call('queue.work', { queue, credit: 2 });
  const mine = (): Any[] => watcher.tasks().filter((task) => task.queue === queue);
  await watcher.until(() => mine().length === 2, 60_000, 'both tasks back');
  const ms = Math.round(performance.now() - from);
  const events = (await logged(stage.tap, 'task.retried')).filter(({ data }) => data.queue === queue);
  check(
    events.length === 2 && events.every(({ data }) => data.reason === reason && data.agent === 'dying'),
    `each with an event that names the dead session: ${JSON.stringify(events)}`,
  );
  check(
    mine().every(({ attempt }) => attempt === 2),
    'the attempts are charged',
  );
  await watcher.call('queue.complete', { tasks: refs(mine()) });
  return ms;
}

export const dyingAgents = scenario<Lengths>({
  id: 'A12',
  title:
    'agents die holding tasks: back within the grace or the ttl, each with its event; a daemon that restarts loses nothing',
  short: { graceMs: 400, ttlMs: 1200 },
  full: { graceMs: 5000, ttlMs: 15_000 },
  run: ({ graceMs, ttlMs }) =>
    onStage(async (stage) => {
      const settings = { 'session.graceMs': graceMs };
      const daemon = await stage.daemon(settings);
      const steady = await (await stage.daemon(settings)).session({ agent: 'steady', ttlMs: 120_000 });
      const agent = async (ttl = ttlMs): Promise<Remote> => {
        const remote = await startRemote(daemon.url);
        await remote.wire.call('session.open', { agent: 'dying', ttlMs: ttl });
        return remote;
      };
      const killed = await agent();
      const a = await freed(stage, steady, killed.wire, () => killed.kill(), 'sessionLost');
      check(a <= graceMs + 1500, `(a) kill -9: after ${a} ms`);

      const link = await startProxy(Number(new URL(daemon.url).port));
      const unplugged = await Wire.session(`ws://127.0.0.1:${link.port}/v1/ws`, { agent: 'dying', ttlMs });
      const b = await freed(stage, steady, unplugged, () => link.blackHole(), 'sessionLost');
      check(b <= ttlMs + 2000, `(b) unplugged: after ${b} ms`);
      await link.close();

      const closing = await daemon.session({ agent: 'dying', ttlMs });
      const c = await freed(stage, steady, closing, () => closing.close(), 'sessionLost');
      check(c <= 1500, `(c) clean close: after ${c} ms`);

      const living = await daemon.session({ agent: 'living', ttlMs: Math.max(ttlMs, 10_000) });
      await living.call('queue.enqueue', { queue: 'kept', tasks: [{ payload: 1 }, { payload: 2 }] });
      const { tasks } = await living.call('queue.claim', { queue: 'kept', count: 2 });
      const { session, key } = living.opened;
      await daemon.kill();
      const again = await (await stage.daemon(settings)).wire();
      const resumed = await again.call('session.open', { agent: 'living', resume: { session, key } });
      check(
        resumed.resumed && resumed.holdings.length === 2,
        `(d) holdings after the restart: ${JSON.stringify(resumed.holdings)}`,
      );
      const done = await again.call('queue.complete', { tasks: refs(tasks) });
      check(
        done.tasks.every(({ state }: Any) => state === 'completed'),
        `(d) completed after the restart: ${JSON.stringify(done)}`,
      );
      await checkRest(stage);
      return `back after ${a} ms (kill -9), ${b} ms (unplugged, ttl ${ttlMs}), ${c} ms (closed); a daemon's restart took nothing`;
    }),
});
