import { describe, expect, test } from 'vitest';
import { claim, complete, drain, freshQueue, put, stats, useWorld } from '../queue/support.js';
import type { TestDaemon } from '../support/daemon.js';
import type { Any, Wire } from '../support/wire.js';

const { daemon, current } = useWorld();

const configure = (wire: Wire, queue: string, admission: Any): Promise<Any> =>
  wire.call('queue.configure', { queue, admission });
const send = (wire: Wire, queue: string, count: number, task: Any = {}): Promise<Any> =>
  wire.call('queue.enqueue', { queue, tasks: Array.from({ length: count }, (_, i) => ({ payload: i, ...task })) });
const refused = (reply: Any): Any[] => reply.tasks.filter(({ error }: Any) => error).map(({ error }: Any) => error);

async function watch(at: TestDaemon): Promise<Wire> {
  const wire = await at.wire();
  await wire.call('feed.subscribe', { types: ['pressure.>'] });
  return wire;
}
const changes = (watcher: Wire, queue: string): Any[] =>
  watcher
    .events()
    .filter(({ event }) => event.subject === queue)
    .map(({ event }) => event.data);
const pushes = (wire: Wire, queue: string): Any[] =>
  wire.lines.filter((line) => line.op === 'pressure' && line.queue === queue);
const level = (wire: Wire, queue: string, at: number): Promise<Any> =>
  wire.next((line) => line.op === 'pressure' && line.queue === queue && line.level === at);

/** Resolves when a sweep has looked at all queues: another queue's level has fallen, which only a sweep does. */
async function swept(wire: Wire): Promise<void> {
  const queue = freshQueue();
  await configure(wire, queue, { low: 1, high: 100, critical: 100, minRate: 0 });
  await send(wire, queue, 1);
  await level(wire, queue, 1);
  await complete(wire, ...(await claim(wire, queue)));
  await level(wire, queue, 0);
}

describe('admission by depth', () => {
  test('R12 R22 A25: none, delay, shed, reject: by depth, the low priorities first, each level told before the next and before any refusal', async () => {
    const [watcher, wire, other] = [await watch(daemon()), await daemon().session(), await daemon().session()];
    const queue = freshQueue();
    const bounds = { low: 10, high: 20, critical: 30, delayPerTaskMs: 10, delayMaxMs: 150, minRate: 0, shedBelow: 25 };
    expect((await configure(wire, queue, bounds)).admission).toEqual(bounds);
    expect((await send(other, queue, 1)).pressure).toEqual({ level: 0 });
    expect((await send(wire, queue, 8)).pressure).toEqual({ level: 0 });
    expect((await send(wire, queue, 1)).pressure).toEqual({ level: 1, delayMs: 10 });
    expect(await level(other, queue, 1)).toEqual({ op: 'pressure', queue, level: 1, delayMs: 10 });
    expect((await send(wire, queue, 5)).pressure).toEqual({ level: 1, delayMs: 50 });
    expect((await send(wire, queue, 5)).pressure).toEqual({ level: 2, delayMs: 100 });
    expect(await level(other, queue, 2)).toEqual({ op: 'pressure', queue, level: 2, delayMs: 100 });

    // Level 2: what is less urgent is shed, all else goes in.
    const mixed = await wire.call('queue.enqueue', {
      queue,
      tasks: [0, 24, 25, 50, 100].map((priority) => ({ payload: 1, priority })),
    });
    expect(mixed.tasks.map(({ state, error }: Any) => state ?? error.code)).toEqual([
      'OVERLOADED',
      'OVERLOADED',
      'ready',
      'ready',
      'ready',
    ]);
    expect(mixed.tasks[0].error).toMatchObject({
      retry: true,
      afterMs: 100,
      details: { scope: 'queue', level: 2, depth: 20, priority: 0, shedBelow: 25 },
    });

    // Level 3: exactly as many as are allowed, whatever their priority.
    const rest = await send(wire, queue, 10, { priority: 100 });
    expect(refused(rest)).toHaveLength(3);
    expect(refused(rest)[0]).toMatchObject({
      code: 'OVERLOADED',
      retry: true,
      afterMs: 150,
      details: { scope: 'queue', level: 3, depth: 30 },
    });
    expect(rest.pressure).toEqual({ level: 3, delayMs: 150 });
    await level(other, queue, 3);
    expect(refused(await send(other, queue, 2, { priority: 100, delayMs: 60_000 }))).toHaveLength(2);
    expect(await stats(wire, queue)).toMatchObject({
      depth: 30,
      overloaded: true,
      pressure: { level: 3, shed: 2, rejected: 5 },
    });

    // R22: shorter again, and everybody hears it.
    await drain(wire, queue);
    expect(await level(other, queue, 0)).toEqual({ op: 'pressure', queue, level: 0 });
    expect((await send(wire, queue, 1)).pressure).toEqual({ level: 0 });
    expect(await stats(wire, queue)).toMatchObject({ depth: 1, overloaded: false, pressure: { level: 0 } });
    await watcher.next(({ event }) => event?.subject === queue && event.data.level === 0);
    expect(changes(watcher, queue).slice(0, 3)).toEqual([
      { queue, level: 1, was: 0, why: 'depth', depth: 10, delayMs: 10 },
      { queue, level: 2, was: 1, why: 'depth', depth: 20, delayMs: 100 },
      { queue, level: 3, was: 2, why: 'depth', depth: 30, delayMs: 150 },
    ]);
    expect(
      pushes(other, queue)
        .slice(0, 3)
        .map((push) => push.level),
    ).toEqual([1, 2, 3]);
    await drain(wire, queue);
  });

  test('its defaults are those of the row: 100, 500, 1000, 10 a second, 10 ms a task up to 5 s, below 25', async () => {
    const wire = await daemon().session();
    const queue = freshQueue();
    const { admission } = await configure(wire, queue, {});
    expect(admission).toEqual({
      low: 100,
      high: 500,
      critical: 1000,
      minRate: 10,
      delayPerTaskMs: 10,
      delayMaxMs: 5000,
      shedBelow: 25,
    });
    expect((await send(wire, queue, 99)).pressure.level).toBe(0);
    expect((await send(wire, queue, 400)).pressure).toEqual({ level: 1, delayMs: 3990 });
    expect((await send(wire, queue, 500)).pressure).toEqual({ level: 2, delayMs: 5000 });
    expect(refused(await send(wire, queue, 2))).toHaveLength(1);
    expect((await configure(wire, queue, { utilisation: {} })).admission.utilisation).toEqual({ on: 0.9, off: 0.7 });
    await wire.call('queue.purge', { queue });
  });

  test('two daemons and many producers: the bound holds exactly', async () => {
    const far = await current().another();
    const queue = freshQueue();
    const wires = await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? far : daemon()).session()));
    await configure(wires[0]!, queue, { low: 50, high: 80, critical: 100, minRate: 0 });
    const replies = await Promise.all(wires.flatMap((wire) => [send(wire, queue, 7), send(wire, queue, 6)]));
    expect(replies.flatMap(refused)).toHaveLength(20 * 13 - 100);
    expect((await stats(wires[0]!, queue)).depth).toBe(100);
    // The producers of the other daemon are told as well.
    await Promise.all(wires.map((wire) => level(wire, queue, 3)));
    await wires[0]!.call('queue.purge', { queue });
    await Promise.all(wires.map((wire) => level(wire, queue, 0)));
  });

  test('a level is left at nine tenths of its threshold: coming and going there changes nothing', async () => {
    const [watcher, wire] = [await watch(daemon()), await daemon().session()];
    const queue = freshQueue();
    await configure(wire, queue, { low: 20, high: 100, critical: 200, minRate: 0 });
    await send(wire, queue, 20);
    for (let i = 0; i < 5; i++) {
      await complete(wire, ...(await claim(wire, queue, { count: 2 })));
      await swept(wire); // sees it at 18
      expect((await send(wire, queue, 2)).pressure.level).toBe(1);
    }
    await complete(wire, ...(await claim(wire, queue, { count: 3 })));
    await level(wire, queue, 0);
    await watcher.next(({ event }) => event?.subject === queue && event.data.level === 0);
    expect(changes(watcher, queue).map(({ level }) => level)).toEqual([1, 0]);
    await drain(wire, queue);
  });

  test('a repeat is answered as the task that is there, also by a queue that takes nothing', async () => {
    const wire = await daemon().session();
    const queue = freshQueue();
    await configure(wire, queue, { low: 1, high: 1, critical: 1, minRate: 0 });
    const [first] = await put(wire, queue, { payload: 1, task: `${queue}/a`, key: 'k' });
    expect(first.state).toBe('ready');
    const again = await put(
      wire,
      queue,
      { payload: 1, task: `${queue}/a`, key: 'k' },
      { payload: 1, key: 'k' },
      { payload: 2 },
    );
    expect(again.map(({ deduplicated, error }: Any) => error?.code ?? deduplicated)).toEqual([
      true,
      true,
      'OVERLOADED',
    ]);
    await drain(wire, queue);
  });

  test('what follows from a completion meets the same door: refused, nothing is done', async () => {
    const wire = await daemon().session();
    const [from, to] = [freshQueue(), freshQueue()];
    await put(wire, from, { payload: 1 });
    await configure(wire, to, { low: 1, high: 1, critical: 1, minRate: 0 });
    await put(wire, to, { payload: 1 });
    const [task] = await claim(wire, from);
    const enqueue = [{ queue: to, tasks: [{ task: `${to}/next`, payload: 2 }] }];
    const tasks = [{ task: task.task, fence: task.fence }];
    const reply = await wire.call('queue.complete', { tasks, enqueue });
    expect(reply.enqueued[0].tasks[0].error.code).toBe('OVERLOADED');
    expect(reply.tasks[0].error.code).toBe('CONFLICT');
    await drain(wire, to);
    await wire.next((line) => line.op === 'pressure' && line.level === 0).catch(() => undefined);
    await expect
      .poll(async () => (await wire.call('queue.complete', { tasks, enqueue })).tasks[0].state, { timeout: 5000 })
      .toBe('completed');
    await drain(wire, to);
  });

  test('without admission a queue has no level, and switched off it has none any more', async () => {
    const [watcher, wire] = [await watch(daemon()), await daemon().session()];
    const [plain, queue] = [freshQueue(), freshQueue()];
    expect((await send(wire, plain, 5)).pressure).toEqual({ level: 0 });
    await configure(wire, queue, { low: 1, high: 2, critical: 3, minRate: 0 });
    expect((await send(wire, queue, 4)).pressure.level).toBe(3);
    expect((await configure(wire, queue, null)).admission).toBeUndefined();
    expect((await send(wire, queue, 4)).pressure).toEqual({ level: 0 });
    await watcher.next((line) => line.event?.subject === queue && line.event.data.why === 'off');
    const client = current().redis.client();
    expect(await client.keys('sb:{default}:level:*')).not.toContain(`sb:{default}:level:${queue}`);
    expect(await client.keys('sb:{default}:level:*')).not.toContain(`sb:{default}:level:${plain}`);
    expect(await client.zscore('sb:{default}:admissions', queue)).toBe(null);
    await drain(wire, plain);
    await drain(wire, queue);
  });

  test('only who enqueued there is pushed to', async () => {
    const [wire, bystander] = [await daemon().session(), await daemon().session()];
    const [queue, other] = [freshQueue(), freshQueue()];
    for (const each of [queue, other]) await configure(wire, each, { low: 2, high: 5, critical: 9, minRate: 0 });
    await send(bystander, other, 1);
    await send(wire, queue, 1);
    await send(await daemon().session(), queue, 1);
    await level(wire, queue, 1);
    expect(pushes(bystander, queue)).toEqual([]);
    await drain(wire, queue);
    await drain(wire, other);
  });
});

describe('admission by what the workers do', () => {
  test('R14: utilisation with hysteresis: on at 0.9, off below 0.7, the low priorities are shed and counted', async () => {
    const [watcher, wire, worker] = [await watch(daemon()), await daemon().session(), await daemon().session()];
    const queue = freshQueue();
    await configure(wire, queue, { minRate: 0, utilisation: { on: 0.9, off: 0.7 } });
    await worker.call('queue.work', { queue, credit: 10 });
    expect((await send(wire, queue, 8)).pressure.level).toBe(0);
    await worker.tasksUntil(8);
    await send(wire, queue, 1);
    expect(await level(wire, queue, 2)).toMatchObject({ level: 2 });
    const reply = await wire.call('queue.enqueue', { queue, tasks: [{ payload: 1, priority: 10 }, { payload: 1 }] });
    expect(reply.tasks.map(({ error }: Any) => error?.code)).toEqual(['OVERLOADED', undefined]);
    const tasks = await worker.tasksUntil(10);
    // Between its two sides it stays.
    await complete(worker, ...tasks.slice(0, 2));
    // What a sweep measures is judged with the next one.
    for (let sweeps = 0; sweeps < 3; sweeps++) await swept(wire);
    expect(pushes(wire, queue).map((push) => push.level)).toEqual([2]);
    await complete(worker, ...tasks.slice(2, 4));
    await level(wire, queue, 0);
    await watcher.next(({ event }) => event?.subject === queue && event.data.level === 0);
    expect(changes(watcher, queue).map(({ level, why }) => [level, why])[0]).toEqual([2, 'utilisation']);
    expect((await stats(wire, queue)).pressure).toEqual({ level: 0, shed: 1, rejected: 0 });
    await complete(worker, ...tasks.slice(4));
  });

  test('R12: a backlog that is worked off below the least rate is level 2; a burst is not judged before 10 s', async () => {
    const [watcher, wire] = [await watch(daemon()), await daemon().session()];
    const queue = freshQueue();
    const from = performance.now();
    await configure(wire, queue, { low: 5, high: 500, critical: 1000, minRate: 10 });
    expect((await send(wire, queue, 8)).pressure.level).toBe(1);
    await wire.next((line) => line.op === 'pressure' && line.level === 2, 20_000);
    expect(performance.now() - from).toBeGreaterThan(9_900);
    await watcher.next(({ event }) => event?.subject === queue && event.data.level === 2);
    expect(changes(watcher, queue).at(-1)).toMatchObject({ level: 2, was: 1, why: 'rate', depth: 8 });
    expect(refused(await send(wire, queue, 1, { priority: 0 }))).toHaveLength(1);
    await drain(wire, queue);
    await level(wire, queue, 0);
  });
});

test('what contradicts itself is INVALID, what is out of bounds BAD_REQUEST; nothing is stored', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const bad: [Any, string][] = [
    [{ low: 0 }, 'admission.low'],
    [{ high: 1.5 }, 'admission.high'],
    [{ critical: '9' }, 'admission.critical'],
    [{ minRate: -1 }, 'admission.minRate'],
    [{ delayPerTaskMs: -1 }, 'admission.delayPerTaskMs'],
    [{ delayMaxMs: 366 * 86_400_000 + 1 }, 'admission.delayMaxMs'],
    [{ shedBelow: 101 }, 'admission.shedBelow'],
    [{ utilisation: { on: -1 } }, 'admission.utilisation.on'],
    [{ utilisation: 1 }, 'admission.utilisation'],
    [{ extra: 1 }, 'admission.extra'],
    [7, 'admission'],
  ];
  for (const [admission, path] of bad) {
    const error = await wire.refused('queue.configure', { queue, admission });
    expect([error.code, error.path], JSON.stringify(admission)).toEqual(['BAD_REQUEST', path]);
  }
  for (const admission of [{ low: 600 }, { critical: 400 }, { utilisation: { on: 0.5 } }]) {
    expect(await wire.refused('queue.configure', { queue, admission })).toMatchObject({ code: 'INVALID' });
  }
  const client = current().redis.client();
  expect(await client.exists(`sb:{default}:queue:${queue}`)).toBe(0);
});
