import type { Any, Wire } from '../support/wire.js';
import { check, percentile, scenario } from './scenario.js';
import { checkRest, onStage, refs, sleep } from './support.js';

interface Lengths {
  readonly finished: number;
  readonly delayed: number;
  readonly pending: number;
  /** Tasks a second that are enqueued and done beside it all. */
  readonly perSecond: number;
  /** Longest that one script may hold Redis, by its own slow log: waiting for a busy machine's processor counts too. */
  readonly slowMs: number;
  readonly p99Ms: number;
}

const batch = 500;

/** `count` tasks in `queue`, in batches; `spec` makes each. */
async function put(wire: Wire, queue: string, count: number, spec: (n: number) => Any): Promise<void> {
  for (let from = 0; from < count; from += batch) {
    const tasks = Array.from({ length: Math.min(batch, count - from) }, (_, i) => ({
      payload: { n: from + i },
      ...spec(from + i),
    }));
    await wire.call('queue.enqueue', { queue, tasks });
  }
}

async function finishAll(
  wire: Wire,
  queue: string,
  count: number,
  how: (tasks: Any[]) => Promise<unknown>,
): Promise<void> {
  for (let done = 0; done < count; ) {
    const { tasks } = await wire.call('queue.claim', { queue, count: 100 });
    check(tasks.length > 0, `${queue} ran dry after ${done}`);
    await how(tasks);
    done += tasks.length;
  }
}

/** Goes through all pages of a verb; answers how many pages and how many tasks. */
async function paged(wire: Wire, op: string, params: Any): Promise<{ pages: number; count: number }> {
  let count = 0;
  let cursor: string | undefined;
  let pages = 0;
  do {
    const page = await wire.call(op, { ...params, ...(cursor ? { cursor } : {}) });
    count += page.count ?? page.tasks.length;
    cursor = page.cursor;
    pages++;
  } while (cursor);
  return { pages, count };
}

/** Enqueues and does small tasks at a steady rate; answers how long each enqueue took. */
function beside(wire: Wire, perSecond: number): () => Promise<number[]> {
  const times: number[] = [];
  let on = true;
  const done = (async () => {
    await wire.call('queue.work', { queue: 'live', credit: 50 });
    let seen = 0;
    while (on) {
      const sentAt = performance.now();
      const tasks = Array.from({ length: Math.ceil(perSecond / 50) }, () => ({ payload: 1 }));
      await wire.call('queue.enqueue', { queue: 'live', tasks });
      times.push(performance.now() - sentAt);
      const fresh = wire.tasks().slice(seen);
      seen += fresh.length;
      if (fresh.length > 0) await wire.call('queue.complete', { tasks: refs(fresh) });
      await sleep(20);
    }
  })();
  return async () => {
    on = false;
    await done;
    return times;
  };
}

export const bigVerbs = scenario<Lengths>({
  id: 'Q28',
  title:
    'lists, purges, redrives, stats and retention over a huge queue, beside enqueue and claim: nobody waits for them',
  short: { finished: 4000, delayed: 2000, pending: 1000, perSecond: 200, slowMs: 200, p99Ms: 400 },
  full: { finished: 300_000, delayed: 100_000, pending: 50_000, perSecond: 500, slowMs: 25, p99Ms: 100 },
  run: ({ finished, delayed, pending, perSecond, slowMs, p99Ms }) =>
    onStage(async (stage) => {
      const { admin } = stage;
      // Kept by count of its own, so that retention has something to do at a moment we choose.
      const daemon = await stage.daemon({ 'queue.completedCount': finished, 'queue.deadCount': finished });
      const wire = await daemon.session({ agent: 'clerk', ttlMs: 600_000 });
      const dead = Math.floor(finished / 10);
      await put(wire, 'big', finished - dead, () => ({}));
      await finishAll(wire, 'big', finished - dead, (tasks) => wire.call('queue.complete', { tasks: refs(tasks) }));
      await put(wire, 'big', dead, () => ({ maxAttempts: 1 }));
      await finishAll(wire, 'big', dead, (tasks) =>
        wire.call('queue.fail', { tasks: refs(tasks).map((ref) => ({ ...ref, error: { message: 'no' } })) }),
      );
      await put(wire, 'big', delayed, () => ({ delayMs: 3_600_000 }));
      await put(wire, 'big', pending, (n) => ({ kind: n % 5 === 0 ? 'fifth' : 'rest' }));
      await admin.config('SET', 'slowlog-log-slower-than', '10000');
      await admin.config('SET', 'slowlog-max-len', '10000');
      await admin.call('SLOWLOG', 'RESET');

      const other = await daemon.session({ agent: 'live', ttlMs: 600_000 });
      const stop = beside(other, perSecond);
      await sleep(300);
      const told: string[] = [];
      const run = async (what: string, op: string, params: Any, expected: number): Promise<void> => {
        const from = performance.now();
        const { pages, count } = await paged(wire, op, params);
        check(count === expected, `${what}: ${count}, expected ${expected}`);
        told.push(`${what} ${count} in ${pages} pages, ${Math.round(performance.now() - from)} ms`);
      };
      await wire.call('queue.stats', {});
      await run('list completed', 'queue.list', { queue: 'big', state: 'completed', limit: 1000 }, finished - dead);
      const first = await wire.call('queue.list', { queue: 'big', state: 'scheduled' });
      check(first.tasks.length <= 100 && first.cursor, 'a list without limit is a page');
      await run(
        'cancel by filter',
        'queue.purge',
        { queue: 'big', state: 'ready', filter: { kind: 'fifth' } },
        Math.ceil(pending / 5),
      );
      await run('redrive all', 'queue.redrive', { queue: 'big', state: 'dead' }, dead);
      const keep = { completed: { ageMs: 3_600_000, count: 10 }, dead: { ageMs: 3_600_000, count: 10 } };
      await wire.call('queue.configure', { queue: 'big', keep });
      for (let i = 0; (await wire.call('queue.stats', { queue: 'big' })).queues[0].states.completed > 10; i++) {
        check(i < 3000, 'retention does not come to an end');
        await sleep(50);
      }
      await run('purge all', 'queue.purge', { queue: 'big' }, delayed + pending - Math.ceil(pending / 5) + dead);
      const times = await stop();
      const slow = ((await admin.call('SLOWLOG', 'GET', '10000')) as [number, number, number, string[]][]).filter(
        ([, , , args]) => /eval/i.test(args[0]!),
      );
      slow.sort((a, b) => b[2] - a[2]);
      const worst = (slow[0]?.[2] ?? 0) / 1000;
      const p99 = percentile(times, 0.99);
      const shown = slow.slice(0, 5).map(([, , micros, args]) => `${(micros / 1000).toFixed(1)} ms ${args[1]}`);
      check(worst < slowMs, `a script held Redis for ${worst.toFixed(1)} ms: ${shown.join(', ')}`);
      check(p99 < p99Ms, `p99 of enqueue beside it: ${p99.toFixed(0)} ms`);
      await checkRest(stage);
      return `${told.join('; ')}; slowest script ${worst.toFixed(1)} ms, enqueue p99 ${p99.toFixed(0)} ms`;
    }),
});
