import type { TestDaemon } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, refs, rssOf, type Stage, sleep } from './support.js';

interface Lengths {
  readonly rounds: number;
  /** Tasks a round, spread over so many tenants and three queues. */
  readonly tasks: number;
  readonly tenants: number;
  readonly retentionMs: number;
}

/** One round: tasks of every fate, over many tenants, queues of their own names and random keys. */
async function round(daemon: TestDaemon, number: number, { tasks, tenants }: Lengths): Promise<void> {
  const wire = await daemon.session({ agent: 'clerk', ttlMs: 600_000 });
  const queues = [0, 1, 2].map((n) => `q-${number}-${n}`);
  const fates = ['done', 'done', 'done', 'done', 'dead', 'cancelled', 'expired', 'twice', 'purged', 'lost'] as const;
  for (let from = 0; from < tasks; from += 300) {
    for (const [n, queue] of queues.entries()) {
      const made = Array.from({ length: Math.min(100, Math.ceil((tasks - from) / 3)) }, (_, i) => {
        const id = from + n * 100 + i;
        const fate = fates[id % 10]!;
        return {
          fate,
          payload: { id },
          task: `${queue}-${id}`,
          tenant: `tenant-${Math.floor(Math.random() * tenants)}`,
          kind: `kind-${id % 3}`,
          maxAttempts: 1,
          ...(id % 2 === 0 ? { key: `key-${Math.random()}` } : {}),
          ...(fate === 'expired' ? { startByMs: 1 } : {}),
        };
      });
      const specs = made.map(({ fate, ...spec }) => spec);
      await wire.call('queue.enqueue', { queue, tasks: specs });
      const of = (fate: string): string[] => made.filter((one) => one.fate === fate).map(({ task }) => task);
      await wire.call('queue.enqueue', { queue, tasks: specs.filter(({ task }) => of('twice').includes(task)) });
      for (const task of of('cancelled')) await wire.call('queue.cancel', { task });
      await wire.call('queue.purge', { queue, tasks: of('purged') });
      await finish(daemon, wire, queue, new Set(of('dead')), new Set(of('lost')));
    }
  }
  await wire.close();
}

async function finish(
  daemon: TestDaemon,
  wire: Wire,
  queue: string,
  dead: ReadonlySet<string>,
  lost: ReadonlySet<string>,
): Promise<void> {
  // Takes what its worker will die with, and dies.
  const dying = await daemon.session({ agent: 'dying', ttlMs: 1500 });
  for (;;) {
    const { tasks } = await dying.call('queue.claim', { queue, count: 100 });
    if (tasks.length === 0) break;
    const mine = (tasks as Any[]).filter(({ task }) => !lost.has(task));
    const [bad, good] = [mine.filter(({ task }) => dead.has(task)), mine.filter(({ task }) => !dead.has(task))];
    if (good.length > 0) await dying.call('queue.complete', { tasks: refs(good) });
    if (bad.length > 0)
      await dying.call('queue.fail', { tasks: refs(bad).map((ref) => ({ ...ref, error: { message: 'no' } })) });
  }
  dying.cut();
  await wire.call('queue.stats', { queue });
}

/** Full of bytes it says so, lets work end, and is itself again when there is room. */
async function atMaxmemory({ admin }: Stage, daemon: TestDaemon): Promise<string> {
  const wire = await daemon.session({ agent: 'full', ttlMs: 60_000 });
  await wire.call('queue.enqueue', { queue: 'full', tasks: Array.from({ length: 20 }, () => ({ payload: 1 })) });
  const { tasks } = await wire.call('queue.claim', { queue: 'full', count: 20 });
  await admin.config('SET', 'maxmemory', '1');
  const refused = await wire.call('queue.enqueue', { queue: 'full', tasks: [{ payload: 'x' }] });
  const refusal = refused.tasks[0].error;
  check(
    refusal?.code === 'OVERLOADED' && refusal.retry && refusal.afterMs > 0,
    `enqueue at maxmemory: ${JSON.stringify(refusal)}`,
  );
  const done = await wire.call('queue.complete', { tasks: refs(tasks).map((ref) => ({ ...ref, result: { x: 1 } })) });
  check(
    done.tasks.every(({ state }: Any) => state === 'completed'),
    'completions pass at maxmemory',
  );
  await wire.call('ping');
  await admin.config('SET', 'maxmemory', '0');
  await wire.call('queue.enqueue', { queue: 'full', tasks: [{ payload: 'x', task: 'after' }] });
  await wire.call('queue.purge', { queue: 'full' });
  await wire.close();
  return refusal.code;
}

export const leaks = scenario<Lengths>({
  id: 'Q29',
  title: 'tasks of every fate over many tenants, kinds, keys and queues leave nothing behind; a full Redis is survived',
  short: { rounds: 3, tasks: 900, tenants: 60, retentionMs: 700 },
  full: { rounds: 10, tasks: 200_000, tenants: 10_000, retentionMs: 2000 },
  run: (lengths) =>
    onStage(async (stage) => {
      const { retentionMs, rounds } = lengths;
      const settings = {
        'queue.completedAgeMs': retentionMs,
        'queue.deadAgeMs': retentionMs,
        'log.eventsMax': 1000,
        'session.graceMs': 200,
        'sweep.everyMs': 100,
      };
      const daemon = await stage.daemon(settings);
      const base = await stage.admin.dbsize();
      const sizes: number[] = [];
      for (let number = 0; number < rounds; number++) {
        // Key windows are the queue's: shrunk like the retention.
        const wire = await daemon.session({ agent: 'config', ttlMs: 60_000 });
        for (const n of [0, 1, 2]) await wire.call('queue.configure', { queue: `q-${number}-${n}`, keyWindowMs: 300 });
        await wire.close();
        await round(daemon, number, lengths);
        await rest(stage, base + 3 * (number + 1) + 12, retentionMs);
        sizes.push(Math.round(rssOf(daemon.pid) / 1024 / 1024));
      }
      const grown = sizes.at(-1)! - sizes[0]!;
      check(grown < 40, `the daemon grew from ${sizes.join(' → ')} MiB`);
      const code = await atMaxmemory(stage, daemon);
      await checkRest(stage);
      return `${rounds} rounds of ${lengths.tasks} tasks: keys ${base} → ${await stage.admin.dbsize()}, daemon ${sizes.join(' → ')} MiB; full: ${code}, work ends, and goes on`;
    }),
});

/** Waits for the sweeps; then only what is meant to stay is there. */
async function rest({ admin }: Stage, most: number, retentionMs: number): Promise<void> {
  // Rates of a queue stay for a minute: dropped by hand, so that nobody has to wait for it.
  const until = Date.now() + retentionMs + 60_000;
  for (;;) {
    const keys = await admin.keys('*');
    const left = keys.filter(
      (key) =>
        !/:(meta|log|logIndex|epochs|daemons|ingress|queues|queue:.*|counts:.*)$/.test(key) && key !== 'sb:namespaces',
    );
    if (left.length === 0) break;
    check(Date.now() < until, `left over: ${left.slice(0, 10).join(', ')}`);
    await sleep(100);
  }
  const counters = await admin.keys('*:counts:*');
  for (const key of counters) {
    const fields = Object.keys(await admin.hgetall(key)).filter((field) => !/^r[ecf]:/.test(field));
    check(fields.length === 0, `${key} keeps ${fields.join(', ')}`);
  }
  const size = (await admin.dbsize()) - counters.length;
  check(size <= most, `${size} keys, at most ${most} should be there`);
}
