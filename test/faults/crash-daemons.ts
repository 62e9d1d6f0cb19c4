import type { TestDaemon } from '../support/daemon.js';
import { type Any, Wire, WireFailure } from '../support/wire.js';
import { check, scenario } from './scenario.js';
import { checkFeed, checkRest, logged, onStage, positionOf, refs, type Stage, sleep, watchAll } from './support.js';

interface Lengths {
  readonly kills: number;
  /** Tasks a second that are enqueued, and so claimed. */
  readonly perSecond: number;
  readonly everyMs: number;
}

/** The whole story stays in the log: a watcher's record is held against all of it. */
const roomyLog = { 'log.eventsMax': 10_000_000, 'log.bytesMax': 4 * 1024 ** 3 };

/** Two daemons on one Redis; one of them dies now and then and is started again on the spot. */
class Pair {
  readonly stage: Stage;
  readonly daemons: TestDaemon[] = [];
  on = true;

  constructor(stage: Stage) {
    this.stage = stage;
  }

  async start(n: number): Promise<void> {
    this.daemons[n] = await this.stage.daemon({ 'session.graceMs': 300, ...roomyLog });
  }

  /** A daemon that answers; whoever calls does not care which. */
  get url(): string {
    return this.daemons[Math.floor(Math.random() * this.daemons.length)]!.url;
  }
}

/** An agent that keeps its session over any daemon's death, and repeats what had no answer. */
class Peer {
  readonly #pair: Pair;
  readonly #name: string;
  wire: (Wire & { from?: string }) | undefined;
  #session: { session: string; key: string } | undefined;
  onOpen: (wire: Wire) => Promise<unknown> = async () => undefined;

  constructor(pair: Pair, name: string) {
    this.#pair = pair;
    this.#name = name;
  }

  async open(): Promise<Wire> {
    while (!this.wire || this.wire.closed) {
      try {
        const wire = await Wire.open(this.#pair.url);
        const resume = this.#session && { resume: this.#session };
        const opened = await wire.call('session.open', { agent: this.#name, ttlMs: 5000, ...resume });
        this.#session = { session: opened.session, key: opened.key };
        // What it holds and never saw had its push lost with the daemon: it is work all the same.
        if (opened.holdings.length > 0)
          await wire.call('queue.complete', {
            tasks: opened.holdings.map(({ name, fence }: Any) => ({ task: name, fence })),
          });
        await this.onOpen(wire);
        this.wire = wire;
      } catch (error) {
        if (error instanceof WireFailure && error.code === 'SESSION_LOST') this.#session = undefined;
        await sleep(20);
      }
    }
    return this.wire;
  }

  async call(op: string, params: Any): Promise<Any> {
    for (;;) {
      try {
        return await (await this.open()).call(op, params);
      } catch (error) {
        if (error instanceof WireFailure && !error.error.retry) return undefined;
        await sleep(20);
      }
    }
  }
}

async function work(pair: Pair, n: number): Promise<void> {
  const peer = new Peer(pair, `worker-${n}`);
  let seen = 0;
  peer.onOpen = (wire) => {
    seen = 0;
    return wire.call('queue.work', { queue: 'q', credit: 20, worker: `w${n}` });
  };
  while (pair.on) {
    const wire = await peer.open();
    const fresh = wire.tasks().slice(seen);
    seen += fresh.length;
    if (fresh.length > 0) await peer.call('queue.complete', { tasks: refs(fresh) });
    else
      await Promise.race([
        wire.until(() => wire.tasks().length > seen || wire.closed, 500).catch(() => undefined),
        sleep(500),
      ]);
  }
  peer.wire?.cut();
}

/** Watches through whichever daemon lives, from where it stood. */
async function watch(pair: Pair): Promise<(Wire & { from: string })[]> {
  const records: (Wire & { from: string })[] = [];
  while (pair.on) {
    try {
      const last = records.at(-1);
      records.push(await watchAll({ wire: () => Wire.open(pair.url) } as TestDaemon, last ? positionOf(last) : 'all'));
      await records
        .at(-1)!
        .until(() => records.at(-1)!.closed || !pair.on, 600_000)
        .catch(() => undefined);
    } catch {
      await sleep(20);
    }
  }
  return records;
}

export const crashingDaemons = scenario<Lengths>({
  id: 'two daemons',
  title: 'two daemons on one Redis, one killed at random again and again under load',
  short: { kills: 6, perSecond: 120, everyMs: 700 },
  full: { kills: 200, perSecond: 500, everyMs: 1500 },
  run: ({ kills, perSecond, everyMs }) =>
    onStage(async (stage) => {
      const pair = new Pair(stage);
      await Promise.all([pair.start(0), pair.start(1)]);
      const records = [watch(pair), watch(pair)];
      const workers = Array.from({ length: 4 }, (_, n) => work(pair, n));
      const producer = new Peer(pair, 'producer');
      const asked: string[] = [];
      let killing = true;
      const producing = (async () => {
        while (killing) {
          const tasks = Array.from({ length: Math.ceil(perSecond / 20) }, () => ({
            payload: 1,
            task: `t${asked.length + Math.random()}`,
          }));
          const acknowledged = await producer.call('queue.enqueue', { queue: 'q', tasks });
          if (acknowledged) asked.push(...tasks.map(({ task }) => task));
          await sleep(50);
        }
      })();
      for (let kill = 0; kill < kills; kill++) {
        await sleep(everyMs * (0.5 + Math.random()));
        const n = Math.floor(Math.random() * 2);
        await pair.daemons[n]!.kill();
        await pair.start(n);
      }
      killing = false;
      await producing;
      await drained(producer);
      pair.on = false;
      for (const watched of await Promise.all(
        records.map((record) => Promise.race([record, sleep(100).then(() => undefined)])),
      ))
        void watched;
      producer.wire?.cut();
      const summary = await judge(stage, asked);
      await Promise.all(workers);
      // A last look from the living daemon closes each record.
      for (const record of records) {
        const wires = await finished(record);
        await checkFeed(stage.tap, wires);
        for (const wire of wires) wire.cut();
      }
      await checkRest(stage);
      return `${kills} kills, ${summary}; every watcher's record equals the log`;

      async function finished(record: Promise<(Wire & { from: string })[]>) {
        for (const daemon of pair.daemons) check(daemon.pid > 0, 'both daemons live at the end');
        const wires = await record;
        const last = wires.at(-1)!;
        if (last.closed) wires.push(await watchAll(pair.daemons[0]!, positionOf(last)));
        return wires;
      }
    }),
});

async function drained(producer: Peer): Promise<void> {
  const until = Date.now() + 30_000;
  for (;;) {
    const stats = await producer.call('queue.stats', { queue: 'q' });
    const { ready, scheduled, active } = stats.queues[0].states;
    if (ready + scheduled + active === 0) return;
    check(Date.now() < until, `left after 30 s: ${JSON.stringify(stats.queues[0].states)}`);
    await sleep(100);
  }
}

/** Nothing lost, nothing completed twice, and no ready task waited while workers had nothing to do. */
async function judge({ tap }: Stage, asked: readonly string[]): Promise<string> {
  const completed = new Map<string, number>();
  const readyAt = new Map<string, number>();
  let slowest = 0;
  for (const { type, data, at } of await logged(
    tap,
    'task.enqueued',
    'task.retried',
    'task.released',
    'task.claimed',
    'task.completed',
  )) {
    if (type === 'task.completed') completed.set(data.task, (completed.get(data.task) ?? 0) + 1);
    else if (type === 'task.claimed') {
      slowest = Math.max(slowest, at - (readyAt.get(data.task) ?? at));
      readyAt.delete(data.task);
    } else if (data.state === 'ready') readyAt.set(data.task, at);
  }
  const lost = asked.filter((task) => !completed.has(task));
  const twice = [...completed].filter(([, count]) => count > 1);
  check(
    lost.length === 0,
    `${lost.length} of ${asked.length} acknowledged tasks were lost: ${lost.slice(0, 5).join(', ')}`,
  );
  check(twice.length === 0, `${twice.length} tasks were completed twice: ${twice.slice(0, 5).join(', ')}`);
  check(slowest <= 2000, `a ready task waited ${slowest} ms although workers were idle`);
  return `${completed.size} tasks each completed once, none lost, longest wait for a worker ${slowest} ms`;
}
