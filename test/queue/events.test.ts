import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import { claim, claimOne, complete, fail, freshQueue, lose, put, release, stats, useWorld, watch } from './support.js';

const { daemon } = useWorld({ 'session.graceMs': 40, 'queue.cancelGraceMs': 60 });
const anInstant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

test('one event for each thing and transition, with the reasons of the contract and the attributes of the task', async () => {
  const watcher = await watch(daemon());
  const wire = await daemon().session({ agent: 'agent', tenant: 'acme' });
  const lost = await daemon().session({ agent: 'lost' });
  const queue = freshQueue();
  const { session } = wire.opened;
  const id = (name: string): string => `${queue}/${name}`;
  const about = (name: string): Any[] =>
    watcher
      .events()
      .filter(({ event }) => event.subject === id(name))
      .map(({ event }) => [event.type.slice(5), event.data]);
  const told = (name: string, type: string, count = 1): Promise<unknown> =>
    watcher.until(() => about(name).filter(([one]) => one === type).length >= count);
  const attributes = (name: string): Any => ({ queue, task: id(name), tenant: 'acme', kind: 'k' });
  const make = async (name: string, more: Any = {}): Promise<void> =>
    void (await put(wire, queue, { payload: 1, task: id(name), kind: 'k', ...more }));
  const mine = (task: Any): Any => ({ session, agent: 'agent', attempt: task.attempt, fence: task.fence });

  await make('done', { priority: 70 });
  const done = await claimOne(wire, queue);
  await wire.call('queue.progress', { task: id('done'), fence: done.fence, progress: { half: true } });
  await complete(wire, { ...done, result: 'secret' });
  await told('done', 'completed');
  expect(about('done')).toEqual([
    ['enqueued', { ...attributes('done'), priority: 70, state: 'ready' }],
    ['claimed', { ...attributes('done'), ...mine(done) }],
    ['progressed', { ...attributes('done'), ...mine(done), progress: { half: true } }],
    ['completed', { ...attributes('done'), ...mine(done), reason: 'completed' }],
  ]);

  await make('retried', { delayMs: 20, backoff: { baseMs: 1, capMs: 1 } });
  const one = await claimOne(wire, queue);
  await fail(wire, one, { error: { message: 'm', code: 'c' }, afterMs: 20 });
  const two = await claimOne(wire, queue);
  await release(wire, two, { reason: 'whatever', afterMs: 20 });
  const three = await claimOne(wire, queue);
  await release(wire, three, { reason: 'drained' });
  const four = await claimOne(wire, queue);
  await release(wire, four, { reason: 'undelivered' });
  await fail(wire, await claimOne(wire, queue), { retry: false });
  await wire.call('queue.redrive', { queue, tasks: [id('retried')] });
  await wire.call('queue.update', { task: id('retried'), priority: 10 });
  await wire.call('queue.purge', { queue, tasks: [id('retried')] });
  await told('retried', 'removed');
  expect(
    about('retried').map(([type, { state, reason, nextAt, runAt }]) => [type, state, reason, nextAt ?? runAt]),
  ).toEqual([
    ['enqueued', 'scheduled', undefined, anInstant],
    ['ready', undefined, undefined, undefined],
    ['claimed', undefined, undefined, undefined],
    ['retried', 'scheduled', 'failed', anInstant],
    ['ready', undefined, undefined, undefined],
    ['claimed', undefined, undefined, undefined],
    ['released', 'scheduled', 'released', anInstant],
    ['ready', undefined, undefined, undefined],
    ['claimed', undefined, undefined, undefined],
    ['released', 'ready', 'drained', undefined],
    ['claimed', undefined, undefined, undefined],
    ['released', 'ready', 'undelivered', undefined],
    ['claimed', undefined, undefined, undefined],
    ['dead', undefined, 'failed', undefined],
    ['redriven', 'ready', undefined, undefined],
    ['updated', 'ready', undefined, undefined],
    ['removed', 'ready', 'purged', undefined],
  ]);
  expect(about('retried')[3]![1]).toEqual({
    ...attributes('retried'),
    ...mine(one),
    error: { message: 'm', code: 'c' },
    state: 'scheduled',
    nextAt: anInstant,
    reason: 'failed',
  });

  await make('lost', { maxAttempts: 4, backoff: { baseMs: 1, capMs: 1 } });
  const held = await claimOne(lost, queue);
  await lose(lost, watcher, id('lost'));
  await claimOne(wire, queue, { leaseMs: 20 });
  await told('lost', 'retried', 2);
  await claimOne(wire, queue);
  await wire.call('lease.revoke', { lease: `task:${id('lost')}`, reason: 'r' });
  await claimOne(wire, queue);
  await wire.call('queue.cancel', { task: id('lost'), reason: 'enough' });
  await told('lost', 'cancelled');
  expect(
    about('lost')
      .filter(([type]) => type !== 'claimed')
      .map(([type, { state, reason, message }]) => [type, state, reason, message]),
  ).toEqual([
    ['enqueued', 'ready', undefined, undefined],
    ['retried', 'ready', 'sessionLost', undefined],
    ['retried', 'ready', 'leaseLapsed', undefined],
    ['retried', 'ready', 'revoked', undefined],
    ['cancelRequested', undefined, 'cancelled', 'enough'],
    ['cancelled', undefined, 'cancelled', undefined],
  ]);
  expect(about('lost').find(([type]) => type === 'retried')![1]).toMatchObject({
    session: lost.opened.session,
    agent: 'lost',
    fence: held.fence,
    error: { code: 'WORKER_LOST' },
  });

  await make('late', { deadlineMs: 20 });
  await told('late', 'expired');
  expect(about('late')[1]).toEqual(['expired', { ...attributes('late'), reason: 'deadline' }]);
  await wire.call('queue.configure', { queue, maxAttempts: 3 });
  await watcher.event('queue.configured', queue);
});

test('an enqueue that finds an idle worker emits enqueued and claimed, in one step, and no other word', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  let inOneStep = 0;
  // The worker may be asking for itself just then: so one round of several must do it in one step, and all in order.
  for (let round = 0; round < 10; round++) {
    const queue = freshQueue();
    await wire.call('queue.work', { queue, credit: 3, worker: `w${round}` });
    await stats(wire, queue);
    await put(wire, queue, ...[1, 2, 3, 4].map((payload) => ({ payload, task: `${queue}/${payload}` })));
    await watcher.event('task.claimed', `${queue}/3`);
    const events = watcher.events().filter(({ event }) => event.data.queue === queue);
    expect(events.map(({ event }) => event.type)).toEqual([
      ...Array(4).fill('task.enqueued'),
      ...Array(3).fill('task.claimed'),
    ]);
    expect(events.map(({ offset }) => offset)).toEqual(events.map((_, i) => events[0].offset + i));
    expect(events[4].event.data.worker).toBe(`w${round}`);
    if (new Set(events.map(({ event }) => event.time)).size === 1) inOneStep++;
    await complete(wire, ...(await wire.until(() => wire.tasks(`w${round}`).length === 3 && wire.tasks(`w${round}`))));
    await complete(wire, (await wire.until(() => wire.tasks(`w${round}`).length === 4 && wire.tasks(`w${round}`)))[3]);
  }
  expect(inOneStep).toBeGreaterThan(0);
});

test('`where` picks by queue, task, tenant, kind, session and agent; events carry no payload, result or saved state', async () => {
  const wire = await daemon().session({ agent: 'the agent' });
  const queue = freshQueue();
  const task = `${queue}/where`;
  const wheres = {
    queue,
    task,
    tenant: 't of where',
    kind: 'k of where',
    session: wire.opened.session,
    agent: 'the agent',
  };
  const watchers = await Promise.all(
    Object.entries(wheres).map(async ([name, value]) => ({
      name,
      watcher: await watch(daemon(), ['task.>'], { [name]: value }),
    })),
  );
  const none = await watch(daemon(), ['task.>'], { queue: `${queue}x` });
  await put(wire, queue, {
    payload: 'PAYLOAD',
    metadata: 'METADATA',
    task,
    tenant: wheres.tenant,
    kind: wheres.kind,
    key: 'KEY',
  });
  const first = await claimOne(wire, queue);
  await release(wire, first, { reason: 'REASON', saved: 'SAVED' });
  const [again] = await claim(wire, queue);
  await complete(wire, { ...again, result: 'RESULT' });
  for (const { name, watcher } of watchers) {
    await watcher.event('task.completed', task);
    const types = watcher.events().map(({ event }) => event.type.slice(5));
    expect([name, types]).toEqual([
      name,
      name === 'session' || name === 'agent'
        ? ['claimed', 'released', 'claimed', 'completed']
        : ['enqueued', 'claimed', 'released', 'claimed', 'completed'],
    ]);
    for (const secret of ['PAYLOAD', 'METADATA', 'SAVED', 'RESULT'])
      expect(JSON.stringify(watcher.events())).not.toContain(secret);
  }
  expect(none.events()).toEqual([]);
});

test('a batch gives one event an item and refused items none', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.>']);
  const queue = freshQueue();
  await put(
    wire,
    queue,
    { payload: 1, task: `${queue}/1` },
    { payload: 1, task: `${queue}/1` },
    { payload: 2, task: `${queue}/1` },
    { payload: 1, task: `${queue}/2` },
  );
  const tasks = await claim(wire, queue, { count: 2 });
  await complete(wire, ...tasks, ...tasks, { task: 'nobody', fence: 1 });
  await watcher.event('task.completed', `${queue}/2`);
  await put(wire, queue, { payload: 1, task: `${queue}/end` });
  await watcher.event('task.enqueued', `${queue}/end`);
  const own = watcher.events().map(({ event }) => `${event.type.slice(5)} ${event.subject.split('/').at(-1)}`);
  expect(own).toEqual([
    'enqueued 1',
    'enqueued 2',
    'claimed 1',
    'claimed 2',
    'completed 1',
    'completed 2',
    'enqueued end',
  ]);
  await wire.call('queue.purge', { queue });
});
