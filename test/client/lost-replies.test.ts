import { expect, test } from 'vitest';
import { type Any, type Asked, deferred, type FakeDaemon, pushed, silence } from './fake-daemon.js';
import { client, fakeDaemon, rejection, useRig } from './rig.js';

useRig();

/** The daemon does what was asked, and the link is cut before the first answer. */
function loseFirstReply(daemon: FakeDaemon, op: string, answer: (asked: Asked) => Any): void {
  let isFirst = true;
  daemon.on[op] = (asked) => {
    const ok = answer(asked);
    if (!isFirst) return ok;
    isFirst = false;
    asked.peer.cut();
    return silence;
  };
}

/** Tasks by id, as a queue would keep them. */
function store(): (asked: Asked) => Any {
  const tasks = new Map<string, unknown>();
  return ({ params }) => ({
    tasks: params.tasks.map(({ task, payload }: Any) => {
      const deduplicated = tasks.has(task);
      tasks.set(task, payload);
      return { task, state: 'ready', ...(deduplicated ? { deduplicated } : {}) };
    }),
  });
}

test('Q3: an enqueue whose answer was lost is repeated under the same id', async () => {
  const daemon = await fakeDaemon();
  loseFirstReply(daemon, 'queue.enqueue', store());
  const sb = await client(daemon);
  const answers = await Promise.all([sb.enqueue('q', 1, { key: 'k' }), sb.enqueue('q', 2)]);
  expect(answers.map(({ deduplicated }) => deduplicated)).toEqual([true, true]);
  const [first, second] = daemon.all('queue.enqueue');
  expect(second?.params).toEqual(first?.params);
});

test('Q3: an id that is there but undefined is chosen like one that is not', async () => {
  const daemon = await fakeDaemon();
  const sb = await client(daemon);
  await Promise.all([
    sb.enqueue('q', 1, { task: undefined, key: 'k' } as object),
    sb.publish('a.b', 1, { id: undefined } as object),
    sb.queue.enqueue({ queue: 'q', tasks: [{ payload: 1, task: undefined }] } as never),
  ]);
  const id = expect.stringMatching(/^[\w-]{16}$/);
  const tasks = daemon.all('queue.enqueue').flatMap(({ params }) => params.tasks);
  expect(tasks).toHaveLength(2);
  for (const item of tasks) expect(item).toMatchObject({ payload: 1, task: id });
  expect((await daemon.asked('feed.publish')).params.events).toEqual([{ type: 'a.b', data: 1, id }]);
});

test.each(['complete', 'fail', 'release'] as const)(
  'Q3: a %s whose answer was lost is repeated under the same fence',
  async (verb) => {
    const daemon = await fakeDaemon();
    loseFirstReply(daemon, `queue.${verb}`, ({ params }) => ({ tasks: params.tasks.map(() => ({ state: 'done' })) }));
    const sb = await client(daemon);
    const owned = { task: 't', fence: 7 };
    const call = {
      complete: () => sb.complete(owned, 1),
      fail: () => sb.fail(owned, 'no'),
      release: () => sb.release(owned),
    }[verb];
    expect(await call()).toEqual({ state: 'done' });
    const [first, second] = daemon.all(`queue.${verb}`);
    expect(second?.params).toEqual(first?.params);
    expect(second?.params.tasks[0]).toMatchObject(owned);
  },
);

test('what is safe goes again in its order; the rest is told that it may have happened', async () => {
  const daemon = await fakeDaemon();
  for (const op of ['queue.get', 'queue.purge', 'queue.pause', 'lease.revoke'])
    daemon.on[op] = ({ peer }) => (peer.number === 0 ? silence : {});
  daemon.on['queue.enqueue'] = ({ peer, params }) => (peer.number === 0 ? silence : store()({ params } as Asked));
  const sb = await client(daemon);
  const safe = [
    sb.queue.get({ task: 't' }),
    sb.queue.enqueue({ queue: 'q', tasks: [{ payload: 1 }] }),
    sb.queue.pause({ queue: 'q' }),
  ];
  const unsafe = [sb.queue.purge({ queue: 'q' }), sb.lease.revoke({ lease: 'task:t', reason: 'r' })].map(rejection);
  await daemon.when(() => daemon.all('lease.revoke').length === 1);
  daemon.peer.cut();
  for (const error of await Promise.all(unsafe))
    expect(error).toMatchObject({ code: 'TIMEOUT', details: { sent: true } });
  await Promise.all(safe);
  const again = daemon.log.filter(({ peer, op }) => peer.number === 1 && op.startsWith('queue.')).map(({ op }) => op);
  expect(again).toEqual(['queue.get', 'queue.enqueue', 'queue.pause']);
});

test('what was not sent yet is sent later, safe to repeat or not', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.purge'] = () => ({ count: 3 });
  const cut = deferred();
  const sb = await client(daemon, { onStatus: ({ state }) => state === 'reconnecting' && cut.resolve() });
  daemon.peer.cut();
  await cut.promise;
  expect(await sb.queue.purge({ queue: 'q' })).toEqual({ count: 3 });
  expect(daemon.all('queue.purge')).toHaveLength(1);
});

test('Q3: a claim whose answer was lost is given back at the resume, and not made twice', async () => {
  const daemon = await fakeDaemon();
  loseFirstReply(daemon, 'queue.claim', () => ({ tasks: [pushed('t1', 5)] }));
  const sb = await client(daemon);
  daemon.holdings = [{ lease: 'task:t1', kind: 'task', name: 't1', state: 'held', fence: 5, queue: 'q' }];
  expect(await rejection(sb.queue.claim({ queue: 'q' }))).toMatchObject({ code: 'TIMEOUT' });
  const { params } = await daemon.asked('queue.release');
  expect(params.tasks).toEqual([{ task: 't1', fence: 5, reason: 'undelivered' }]);
  expect(daemon.all('queue.claim')).toHaveLength(1);
});

test('a claim that was answered is known, and stays ours over a resume', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.claim'] = () => ({ tasks: [pushed('t1', 5)] });
  const sb = await client(daemon);
  await sb.queue.claim({ queue: 'q' });
  daemon.holdings = [{ lease: 'task:t1', kind: 'task', name: 't1', state: 'held', fence: 5, queue: 'q' }];
  daemon.peer.cut();
  await daemon.connection(1);
  await sb.complete({ task: 't1', fence: 5 });
  expect(daemon.all('queue.release')).toHaveLength(0);
});

test('a claim that is answered after its caller gave up is given back', async () => {
  const daemon = await fakeDaemon();
  let answer: (ok: object) => void = () => {};
  daemon.on['queue.claim'] = () => new Promise((resolve) => (answer = resolve));
  const sb = await client(daemon, { timeoutMs: 60 });
  expect(await rejection(sb.queue.claim({ queue: 'q' }))).toMatchObject({ code: 'TIMEOUT' });
  answer({ tasks: [pushed('t1', 5)] });
  expect((await daemon.asked('queue.release')).params.tasks).toEqual([{ task: 't1', fence: 5, reason: 'undelivered' }]);
});

test('holdings beyond the first thousand are read to the end', async () => {
  const daemon = await fakeDaemon();
  const row = (n: number): object => ({ lease: `task:t${n}`, kind: 'task', name: `t${n}`, state: 'held', fence: n });
  daemon.on['lease.list'] = ({ params }) =>
    params.cursor === 'c' ? { leases: [row(1001)] } : { leases: [row(1000)], cursor: 'c' };
  daemon.holdings = Array.from({ length: 1000 }, (_, i) => row(i));
  await client(daemon, { resume: { session: 's', key: 'k' } });
  await daemon.when(
    () => daemon.all('queue.release').reduce((sum, { params }) => sum + params.tasks.length, 0) === 1002,
  );
  expect(daemon.all('lease.list').map(({ params }) => params.session)).toEqual(['s', 's']);
});

test('a request refused because the daemon drains goes to the next one', async () => {
  const daemon = await fakeDaemon();
  daemon.on['queue.purge'] = ({ peer }) =>
    peer.number === 0 ? { error: { code: 'DRAINING', message: '', retry: true } } : { count: 1 };
  const sb = await client(daemon);
  const purged = sb.queue.purge({ queue: 'q' });
  await daemon.asked('queue.purge');
  daemon.peer.send({ op: 'drain', afterMs: 1 });
  daemon.peer.close(1012);
  expect(await purged).toEqual({ count: 1 });
});
