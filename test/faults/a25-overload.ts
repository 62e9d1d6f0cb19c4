import type { Any, Wire } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkRest, onStage, refs, sleep } from './support.js';

interface Lengths {
  readonly runMs: number;
}

const queue = 'overloaded';
const maxDepth = 1000;
const payload = 'x'.repeat(4096);
/** Tasks a second: what is produced is five times what is worked off. */
const workedPerSecond = 100;
const classes = {
  interactive: { priority: 75, perSecond: 50 },
  standard: { priority: 50, perSecond: 150 },
  batch: { priority: 0, perSecond: 300 },
} as const;
const turnMs = 100;

/** One class of producers and what it was told. */
class Producer {
  readonly wire: Wire;
  sent = 0;
  refused = 0;
  firstRefusedAt = Number.POSITIVE_INFINITY;
  /** Lines it had received when it was first refused. */
  linesBefore = 0;
  readonly errors: Any[] = [];
  readonly #priority: number;
  readonly #count: number;

  constructor(wire: Wire, { priority, perSecond }: { priority: number; perSecond: number }) {
    this.wire = wire;
    this.#priority = priority;
    this.#count = (perSecond * turnMs) / 1000;
  }

  async send(): Promise<void> {
    const tasks = Array.from({ length: this.#count }, () => ({ payload, priority: this.#priority }));
    const before = this.wire.lines.length;
    this.sent += tasks.length;
    const answer = await this.wire.call('queue.enqueue', { queue, tasks });
    const errors = answer.tasks.flatMap(({ error }: Any) => error ?? []);
    if (errors.length === 0) return;
    this.refused += errors.length;
    if (this.errors.length < 1000) this.errors.push(...errors);
    if (this.firstRefusedAt < Number.POSITIVE_INFINITY) return;
    this.firstRefusedAt = performance.now();
    this.linesBefore = before;
  }

  get share(): number {
    return this.refused / this.sent;
  }
}

/** Every `turnMs` until `over`, whatever a turn takes. */
async function turns(over: number, turn: () => Promise<void>): Promise<void> {
  for (let at = performance.now(); at < over; ) {
    await turn();
    at += turnMs;
    await sleep(Math.max(0, at - performance.now()));
  }
}

export const overload = scenario<Lengths>({
  id: 'A25',
  title: 'five times more is produced than worked off: told before it is refused, batch first, and work goes on',
  short: { runMs: 15_000 },
  full: { runMs: 300_000 },
  run: ({ runMs }) =>
    onStage(
      async (stage) => {
        const daemon = await stage.daemon();
        const worker = await daemon.session({ agent: 'worker', ttlMs: 60_000 });
        const admission = { low: 100, high: 500, critical: maxDepth };
        // What is done is not kept for long: the memory is for what waits.
        const keep = { completed: { ageMs: 1000, count: 100 }, dead: { ageMs: 1000, count: 100 } };
        await worker.call('queue.configure', { queue, maxDepth, admission, keep });
        const producers = {} as Record<keyof typeof classes, Producer>;
        for (const [name, rate] of Object.entries(classes))
          producers[name as keyof typeof classes] = new Producer(
            await daemon.session({ agent: name, ttlMs: 60_000 }),
            rate,
          );
        const all = Object.values(producers);
        const over = performance.now() + runMs;
        let done = 0;
        let deepest = 0;
        let mostBytes = 0;
        const stalls: number[] = [];
        let doneBefore = 0;
        const watching = (async () => {
          for (let second = 0; performance.now() < over; second++) {
            await sleep(1000);
            const [stats] = (await worker.call('queue.stats', { queue })).queues;
            deepest = Math.max(deepest, stats.depth);
            const [, used = '0'] = /used_memory:(\d+)/.exec(await stage.admin.info('memory')) ?? [];
            mostBytes = Math.max(mostBytes, Number(used));
            if (done === doneBefore) stalls.push(second);
            doneBefore = done;
          }
        })();
        const count = (workedPerSecond * turnMs) / 1000;
        await Promise.all([
          watching,
          ...all.map((producer) => turns(over, () => producer.send())),
          turns(over, async () => {
            const { tasks } = await worker.call('queue.claim', { queue, count, waitMs: turnMs });
            if (tasks.length > 0) await worker.call('queue.complete', { tasks: refs(tasks) });
            done += tasks.length;
          }),
        ]);
        const { interactive, standard, batch } = producers;
        for (const { errors, wire, linesBefore, firstRefusedAt } of all) {
          const odd = errors.find(
            ({ code, afterMs, details }) => code !== 'OVERLOADED' || !(afterMs > 0) || !details?.scope,
          );
          check(!odd, `a refusal says what is full and when to come back: ${JSON.stringify(odd)}`);
          if (firstRefusedAt === Number.POSITIVE_INFINITY) continue;
          const told = wire.lines.slice(0, linesBefore).some((line) => line.op === 'pressure' && line.level > 0);
          check(told, 'a producer was told of the pressure before it was refused');
        }
        check(batch.refused > 0, 'batch is shed');
        check(
          batch.firstRefusedAt <= standard.firstRefusedAt && batch.firstRefusedAt <= interactive.firstRefusedAt,
          'batch is shed first',
        );
        const shares = [batch, standard, interactive].map(({ share }) => share);
        check(shares[0]! > shares[1]! && shares[0]! > shares[2]!, `batch is shed most: ${shares}`);
        check(deepest <= maxDepth, `${deepest} tasks wait, at most ${maxDepth} may`);
        check(stalls.length === 0, `nothing was completed in the seconds ${stalls}`);
        check(mostBytes < 64 * 1024 * 1024, `Redis had ${mostBytes} bytes`);
        const errors = await stage.admin.info('errorstats');
        check(!errors.includes('errorstat_OOM'), `Redis was out of memory: ${errors}`);
        // No row of it stays behind.
        await worker.call('queue.pause', { queue });
        for (let cursor: string | undefined, more = true; more; more = cursor !== undefined)
          ({ cursor } = await worker.call('queue.purge', { queue, ...(cursor ? { cursor } : {}) }));
        await checkRest(stage);
        const percent = shares.map((share) => `${Math.round(share * 100)} %`).join(', ');
        return `${done} done, at most ${deepest} waiting and ${Math.round(mostBytes / 1e6)} MB; refused of batch, standard, interactive: ${percent}`;
      },
      ['--maxmemory', '64mb', '--maxmemory-policy', 'noeviction'],
    ),
});
