import { expect, test } from 'vitest';
import { type Any, type FakeDaemon, refuse, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

const itemsOf = (daemon: FakeDaemon): number[] => daemon.all('queue.enqueue').map(({ params }) => params.tasks.length);

test('typed calls go by their op, and refusals come back typed', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.get'] = () => refuse('NOT_FOUND', { details: { task: 'x' } });
  daemon.on['queue.list'] = () => refuse('RATE_LIMITED', { afterMs: 50, path: 'p' });
  daemon.on['queue.stats'] = () => refuse('OF_A_NEWER_DAEMON');
  const sb = await client(daemon);
  expect(await rejection(sb.queue.get({ task: 'x' }))).toMatchObject({
    name: 'Refusal',
    code: 'NOT_FOUND',
    details: { task: 'x' },
  });
  expect(await rejection(sb.queue.list({ queue: 'q', state: 'ready' }))).toMatchObject({
    code: 'RATE_LIMITED',
    afterMs: 50,
    path: 'p',
    retry: true,
  });
  expect(await rejection(sb.queue.stats({}))).toMatchObject({
    code: 'INTERNAL',
    details: { code: 'OF_A_NEWER_DAEMON' },
  });
});

test('what belongs to the client itself is not called by hand', async () => {
  const sb = (await client(await fakeDaemon())) as Any;
  expect((await rejection(sb.queue.work({}))).message).toContain('work()');
  expect((await rejection(sb.feed.subscribe({}))).message).toContain('subscribe()');
  expect(await sb.queue).toBe(sb.queue);
});

test('what is enqueued in one turn leaves as one request a queue, in one message, and each has its own answer', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const calls = [
    sb.enqueue('a', 1),
    sb.enqueue('b', 2),
    sb.enqueue('a', 3, { task: 'mine', priority: 90 }),
    sb.queue.enqueue({ queue: 'c', tasks: [{ payload: 4 }] }),
  ];
  const answers = await Promise.all(calls);
  expect(answers[2]).toEqual({ task: 'mine', state: 'ready' });
  const asked = daemon.all('queue.enqueue');
  expect(asked.map(({ params }) => [params.queue, params.tasks.length]).sort()).toEqual([
    ['a', 2],
    ['b', 1],
    ['c', 1],
  ]);
  expect(new Set(asked.map(({ message }) => message)).size).toBe(1);
  const [first, second] = asked.find(({ params }) => params.queue === 'a')!.params.tasks;
  expect(first).toEqual({ payload: 1, task: expect.stringMatching(/^[\w-]{16}$/) });
  expect(second).toEqual({ payload: 3, task: 'mine', priority: 90 });
});

test('loops that wake in one turn are joined again', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  const loop = async (_: unknown, depth: number): Promise<void> => {
    for (let i = 0; i < 10; i++) {
      await sb.enqueue('q', i);
      // Callers are some promises away from us, each its own number.
      for (let n = 0; n < depth % 7; n++) await undefined;
    }
  };
  await Promise.all(Array.from({ length: 50 }, loop));
  expect(itemsOf(daemon)).toEqual(Array(10).fill(50));
});

test('a request holds at most 50 items, and fits a line of 1 MiB', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  await Promise.all(Array.from({ length: 120 }, (_, i) => sb.enqueue('q', i)));
  expect(itemsOf(daemon)).toEqual([50, 50, 20]);
  await Promise.all(Array.from({ length: 9 }, () => sb.enqueue('big', 'ä'.repeat(120_000))));
  expect(itemsOf(daemon).slice(3)).toEqual([4, 4, 1]);
});

test('an item that fails rejects only its own promise', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.enqueue'] = ({ params }) => ({
    tasks: params.tasks.map((item: Any) =>
      item.payload === 2 ? refuse('OVERLOADED', { afterMs: 10 }) : { task: item.task, state: 'ready' },
    ),
  });
  const sb = await client(daemon);
  const [one, two, three] = await Promise.allSettled([1, 2, 3].map((n) => sb.enqueue('q', n)));
  expect([one?.status, three?.status]).toEqual(['fulfilled', 'fulfilled']);
  expect(two).toMatchObject({ status: 'rejected', reason: { code: 'OVERLOADED', afterMs: 10 } });
});

test('a malformed item does not take the others of its batch down', async () => {
  const daemon = await fakeDaemon();
  const stored: string[] = [];
  daemon.on['queue.enqueue'] = ({ params }) => {
    if (params.tasks.some((item: Any) => item.priority > 100))
      return refuse('BAD_REQUEST', { path: 'tasks.0.priority' });
    stored.push(...params.tasks.map((item: Any) => item.task));
    return { tasks: params.tasks.map((item: Any) => ({ task: item.task, state: 'ready' })) };
  };
  const sb = await client(daemon);
  const calls = Array.from({ length: 20 }, (_, i) => sb.enqueue('q', i, i % 9 === 4 ? { priority: 500 } : {}));
  const answers = await Promise.allSettled(calls);
  expect(answers.flatMap(({ status }, i) => (status === 'rejected' ? i : []))).toEqual([4, 13]);
  expect(new Set(stored).size).toBe(18);
  expect(stored).toHaveLength(18);
});

test('what cannot be told apart once it is sent is refused here: too large, too deep', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  let deep: unknown = 1;
  for (let i = 0; i < 40; i++) deep = [deep];
  const [large, nested, fine] = await Promise.allSettled([
    sb.enqueue('q', 'x'.repeat(2 ** 20)),
    sb.enqueue('q', deep),
    sb.enqueue('q', 1),
  ]);
  expect(large).toMatchObject({ reason: { code: 'TOO_LARGE' } });
  expect(nested).toMatchObject({ reason: { code: 'BAD_FRAME' } });
  expect(fine.status).toBe('fulfilled');
  expect(await rejection(sb.queue.get({ task: 'x'.repeat(2 ** 20) }))).toMatchObject({ code: 'TOO_LARGE' });
});

test('a call without an answer ends within its time, a waiting one that much later', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.get'] = () => silence;
  daemon.on['queue.result'] = () => silence;
  const sb = await client(daemon, { timeoutMs: 100 });
  const started = performance.now();
  const slow = rejection(sb.result('t', { waitMs: 300 })).then(
    (error) => [error.code, performance.now() - started] as const,
  );
  expect(await rejection(sb.queue.get({ task: 't' }))).toMatchObject({ code: 'TIMEOUT', details: { sent: true } });
  expect(performance.now() - started).toBeGreaterThanOrEqual(100);
  const [code, ms] = await slow;
  expect(code).toBe('TIMEOUT');
  expect(ms).toBeGreaterThanOrEqual(400);
});

test('what is unanswered is bounded, in count and in bytes', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.enqueue'] = () => silence;
  daemon.on['queue.get'] = () => silence;
  const sb = await client(daemon, { pendingMax: 10, pendingBytesMax: 10_000 });
  const calls = Array.from({ length: 12 }, (_, i) => rejection(sb.enqueue('q', i)));
  expect(await calls[11]).toMatchObject({ code: 'LIMIT', details: { bound: 'pendingMax', max: 10 } });
  expect(await rejection(sb.queue.get({ task: 't' }))).toMatchObject({ code: 'LIMIT' });

  const other = await client(daemon, { pendingBytesMax: 10_000 });
  void rejection(other.enqueue('q', 'x'.repeat(9000)));
  expect(await rejection(other.enqueue('q', 'x'.repeat(9000)))).toMatchObject({
    details: { bound: 'pendingBytesMax' },
  });
});

test('answered calls make room again', async () => {
  const sb = await client(await fakeDaemon(), { pendingMax: 10 });
  for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 10 }, (_, i) => sb.enqueue('q', i)));
  await Promise.all(Array.from({ length: 10 }, () => sb.ping()));
});

test('a call while the daemon is away waits, bounded, and goes out in its order', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { pendingMax: 3 });
  daemon.on['session.open'] = () => silence;
  daemon.peer.cut();
  await daemon.connection(1);
  const calls = [1, 2, 3].map((n) => sb.queue.enqueue({ queue: 'q', tasks: [{ payload: n }] }));
  expect(await rejection(sb.enqueue('q', 4))).toMatchObject({ code: 'LIMIT' });
  delete daemon.on['session.open'];
  daemon.peer.cut();
  await Promise.all(calls);
  expect(daemon.all('queue.enqueue').map(({ params }) => params.tasks[0].payload)).toEqual([1, 2, 3]);
});

test('ids are chosen where a name makes a call repeatable', async () => {
  const daemon = await fakeDaemon();
  for (const op of ['lock.acquire', 'once.begin', 'limit.reserve']) daemon.on[op] = () => ({});
  const sb = await client(daemon);
  await sb.call('lock.acquire', { name: 'l' });
  await sb.call('limit.reserve', { name: 'l' });
  await sb.call('once.begin', { key: 'l' });
  await sb.feed.publish({ events: [{ type: 'a.b' }, { type: 'c.d', id: 'mine' }] });
  await sb.publish('e.f', { n: 1 }, { subject: 's' });
  const id = expect.stringMatching(/^[\w-]{16}$/);
  expect((await daemon.asked('lock.acquire')).params.grant).toEqual(id);
  expect((await daemon.asked('limit.reserve')).params.reservation).toEqual(id);
  expect((await daemon.asked('once.begin')).params.attempt).toEqual(id);
  expect((await daemon.asked('feed.publish')).params.events).toEqual([
    { type: 'a.b', id },
    { type: 'c.d', id: 'mine' },
  ]);
  expect((await daemon.asked('feed.publish')).params.events).toEqual([
    { type: 'e.f', id, data: { n: 1 }, subject: 's' },
  ]);
});

test('pressure is told: in answers and by push', async () => {
  const daemon = await fakeDaemon();
  const told: object[] = [];
  const sb = await client(daemon, { onPressure: (pressure) => told.push(pressure) });
  daemon.on['queue.enqueue'] = ({ params }) => ({
    tasks: params.tasks.map(() => ({ task: 't', state: 'ready' })),
    pressure: { level: 1, delayMs: 20 },
  });
  await sb.enqueue('q', 1);
  daemon.peer.send({ op: 'pressure', queue: 'q', level: 2 });
  await sb.ping();
  expect(told).toEqual([
    { queue: 'q', level: 1, delayMs: 20 },
    { op: 'pressure', queue: 'q', level: 2 },
  ]);
});

test('lines of the daemon that are no frames, and errors without a request, go to onError', async () => {
  const daemon = await fakeDaemon();
  const errors: string[] = [];
  const sb = await client(daemon, { onError: (error) => errors.push(error.message) });
  daemon.peer.text('{nonsense');
  daemon.peer.text('7');
  daemon.peer.send(
    { op: 'error', error: { code: 'BAD_FRAME', message: 'bad line', retry: false } },
    { op: 'ofANewerDaemon' },
  );
  await sb.ping();
  expect(errors).toHaveLength(3);
  expect(errors[2]).toBe('bad line');
});

test('the socket is not filled beyond its bound; control lines overtake bulk', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon, { sendBytesMax: 64 * 1024, timeoutMs: 5000 });
  daemon.peer.freeze();
  // Enough that the kernel takes no more; then the rest stays with the client, and the completion goes ahead of it.
  const calls = Array.from({ length: 120 }, (_, i) =>
    sb.queue.enqueue({ queue: 'q', tasks: [{ task: `t${i}`, payload: 'x'.repeat(200_000) }] }),
  );
  await new Promise((resolve) => setImmediate(resolve));
  const completed = sb.complete({ task: 'done', fence: 1 });
  (daemon.peer as Any).ws.resume();
  await Promise.all([...calls, completed]);
  const order = daemon.log.filter(({ op }) => op.startsWith('queue.')).map(({ op }) => op);
  expect(order.indexOf('queue.complete')).toBeLessThan(order.length - 1);
  expect(daemon.all('queue.enqueue').map(({ params }) => params.tasks[0].task)).toEqual(calls.map((_, i) => `t${i}`));
});
