import { expect, test } from 'vitest';
import type { Any, Wire } from '../support/wire.js';
import { Dump } from './at-rest.js';
import { claimOne, complete, fail, freshQueue, get, put, release, stats, useWorld } from './support.js';

const { daemon, current } = useWorld({
  'queue.payloadBytes': 2000,
  'queue.resultBytes': 2000,
  'queue.progressBytes': 500,
  'queue.kindsMax': 3,
});

/** Everything that is stored, but for the clocks that sweeps leave behind. */
async function stored(): Promise<Record<string, unknown>> {
  const dump = await Dump.of(current().redis);
  const moving = new Set(['meta', 'daemons', 'sessions', 'logIndex', 'ingress']);
  return Object.fromEntries([...dump.keys].filter(([name]) => !moving.has(name)).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Refused requests change nothing: no key, no event, no number. */
async function unchanged(act: () => Promise<unknown>): Promise<void> {
  const before = await stored();
  await act();
  expect(await stored()).toEqual(before);
}

const task = { payload: 1 };
const long = 'x'.repeat(201);
const owned = { task: 't', fence: 1 };
const names: [string, unknown][] = [
  ['missing', undefined],
  ['a number', 7],
  ['null', null],
  ['empty', ''],
  ['201 bytes', long],
  ['201 bytes in 67 characters', '€'.repeat(67)],
  ['a control character', 'a\u0000b'],
  ['a line break', 'a\nb'],
  ['C1', 'a\u0085'],
];

/** op, params, path. */
const bad: [string, Any, string][] = [
  ...names.map(([, queue]): [string, Any, string] => ['queue.enqueue', { queue, tasks: [task] }, 'queue']),
  ...names
    .filter(([name]) => name !== 'missing')
    .flatMap(([, name]) =>
      ['task', 'key', 'tenant', 'kind'].map((field): [string, Any, string] => [
        'queue.enqueue',
        { queue: 'q', tasks: [task, { ...task, [field]: name }] },
        `tasks[1].${field}`,
      ]),
    ),
  ['queue.enqueue', { queue: 'q' }, 'tasks'],
  ['queue.enqueue', { queue: 'q', tasks: [] }, 'tasks'],
  ['queue.enqueue', { queue: 'q', tasks: {} }, 'tasks'],
  ['queue.enqueue', { queue: 'q', tasks: Array(1001).fill(task) }, 'tasks'],
  ['queue.enqueue', { queue: 'q', tasks: [{}] }, 'tasks[0].payload'],
  ['queue.enqueue', { queue: 'q', tasks: [null] }, 'tasks[0]'],
  ['queue.enqueue', { queue: 'q', tasks: [task], extra: 1 }, 'extra'],
  ['queue.enqueue', { queue: 'q', tasks: [task, { ...task, delay: 5 }] }, 'tasks[1].delay'],
  ...[-1, 101, 1.5, 2 ** 53, '5', null, true].map((priority): [string, Any, string] => [
    'queue.enqueue',
    { queue: 'q', tasks: [{ ...task, priority }] },
    'tasks[0].priority',
  ]),
  ...['delayMs', 'startByMs', 'deadlineMs', 'timeoutMs', 'leaseMs'].flatMap((field) =>
    [-1, 0.5, '5', null, 366 * 86_400_000 + 1, ...(field === 'delayMs' ? [] : [0])].map(
      (value): [string, Any, string] => [
        'queue.enqueue',
        { queue: 'q', tasks: [{ ...task, [field]: value }] },
        `tasks[0].${field}`,
      ],
    ),
  ),
  ...['tomorrow', 5, '2024-01-01', '2024-02-30T00:00:00Z', null].map((runAt): [string, Any, string] => [
    'queue.enqueue',
    { queue: 'q', tasks: [{ ...task, runAt }] },
    'tasks[0].runAt',
  ]),
  ...[0, 101, 1.5, '3'].map((maxAttempts): [string, Any, string] => [
    'queue.enqueue',
    { queue: 'q', tasks: [{ ...task, maxAttempts }] },
    'tasks[0].maxAttempts',
  ]),
  ['queue.enqueue', { queue: 'q', tasks: [{ ...task, backoff: { baseMs: 0 } }] }, 'tasks[0].backoff.baseMs'],
  ['queue.enqueue', { queue: 'q', tasks: [{ ...task, backoff: { kind: 'linear' } }] }, 'tasks[0].backoff.kind'],
  ['queue.enqueue', { queue: 'q', tasks: [{ ...task, traceparent: 'x' }] }, 'tasks[0].traceparent'],
  ['queue.work', { queue: 'q' }, 'credit'],
  ['queue.work', { queue: 'q', credit: 1001 }, 'credit'],
  ['queue.work', { queue: 'q', credit: -1 }, 'credit'],
  ['queue.work', { queue: 'q', credit: 1, kinds: [] }, 'kinds'],
  ['queue.work', { queue: 'q', credit: 1, kinds: Array.from({ length: 17 }, (_, i) => `k${i}`) }, 'kinds'],
  ['queue.work', { queue: 'q', credit: 1, kinds: ['a', ''] }, 'kinds[1]'],
  ['queue.work', { queue: 'q', credit: 1, leaseMs: 0 }, 'leaseMs'],
  ['queue.work', { queue: 'q', credit: 1, tenants: ['a'] }, 'tenants'],
  ['queue.credit', { worker: 'w', credit: '1' }, 'credit'],
  ['queue.credit', { credit: 1 }, 'worker'],
  ['queue.claim', { queue: 'q', count: 0 }, 'count'],
  ['queue.claim', { queue: 'q', count: 101 }, 'count'],
  ['queue.claim', { queue: 'q', waitMs: -1 }, 'waitMs'],
  ['queue.claim', {}, 'queue'],
  ...['complete', 'fail', 'release'].flatMap((verb): [string, Any, string][] => {
    const rest = { complete: {}, fail: { error: { message: 'm' } }, release: { reason: 'r' } }[verb];
    return [
      [`queue.${verb}`, {}, 'tasks'],
      [`queue.${verb}`, { tasks: [] }, 'tasks'],
      [`queue.${verb}`, { tasks: [{ ...rest, fence: 1 }] }, 'tasks[0].task'],
      [`queue.${verb}`, { tasks: [{ ...rest, task: 't' }] }, 'tasks[0].fence'],
      [`queue.${verb}`, { tasks: [{ ...rest, task: 't', fence: '1' }] }, 'tasks[0].fence'],
      [`queue.${verb}`, { tasks: [{ ...rest, task: 't', fence: -1 }] }, 'tasks[0].fence'],
      [`queue.${verb}`, { tasks: [{ ...rest, task: 't', fence: 2 ** 53 }] }, 'tasks[0].fence'],
      [`queue.${verb}`, { tasks: [{ ...rest, ...owned, more: 1 }] }, 'tasks[0].more'],
    ];
  }),
  ['queue.complete', { tasks: [owned], enqueue: [{ queue: 'q', tasks: [task] }] }, 'enqueue[0].tasks[0].task'],
  ['queue.complete', { tasks: [owned], enqueue: [{ queue: 'q', tasks: [] }] }, 'enqueue[0].tasks'],
  ['queue.fail', { tasks: [owned] }, 'tasks[0].error'],
  ['queue.fail', { tasks: [{ ...owned, error: { code: 'x' } }] }, 'tasks[0].error.message'],
  ['queue.fail', { tasks: [{ ...owned, error: { message: 'm', stack: '' } }] }, 'tasks[0].error.stack'],
  ['queue.fail', { tasks: [{ ...owned, error: { message: 'm' }, retry: 1 }] }, 'tasks[0].retry'],
  ['queue.release', { tasks: [owned] }, 'tasks[0].reason'],
  ['queue.progress', { ...owned }, 'progress'],
  ['queue.progress', { task: 't', progress: 1 }, 'fence'],
  ['queue.cancel', {}, 'task'],
  ['queue.cancel', { task: 't', graceMs: -1 }, 'graceMs'],
  ['queue.update', { task: 't', priority: 101 }, 'priority'],
  ['queue.update', { task: 't', payload: 1 }, 'payload'],
  ['queue.get', {}, 'task'],
  ['queue.list', { queue: 'q' }, 'state'],
  ['queue.list', { queue: 'q', state: 'failed' }, 'state'],
  ['queue.list', { queue: 'q', state: 'ready', limit: 1001 }, 'limit'],
  ['queue.list', { queue: 'q', state: 'ready', cursor: 'nonsense' }, 'cursor'],
  ['queue.list', { queue: 'q', state: 'ready', cursor: 'ready|nonsense' }, 'cursor'],
  ['queue.result', { task: 't', waitMs: 0.5 }, 'waitMs'],
  ['queue.stats', { queue: '' }, 'queue'],
  ['queue.pause', {}, 'queue'],
  ['queue.pause', { queue: 'q', untilMs: 0 }, 'untilMs'],
  ['queue.unpause', { queue: 'q', untilMs: 5 }, 'untilMs'],
  ['queue.purge', { queue: 'q', tasks: [] }, 'tasks'],
  ['queue.purge', { queue: 'q', cursor: 'dead|' }, 'cursor'],
  ['queue.purge', { queue: 'q', cursor: 'ready|x' }, 'cursor'],
  ['queue.redrive', { queue: 'q', filter: { agent: 'a' } }, 'filter.agent'],
  ['queue.redrive', { queue: 'q', cursor: 'dead|x' }, 'cursor'],
  ['queue.configure', { queue: 'q', maxAttempts: 0 }, 'maxAttempts'],
  ['queue.configure', { queue: 'q', keep: { completed: { ageMs: 1, count: 1 } } }, 'keep.dead'],
  ['queue.configure', { queue: 'q', backoff: { baseMs: '1' } }, 'backoff.baseMs'],
  ['queue.configure', { queue: 'q', maxDepth: 0 }, 'maxDepth'],
  ['queue.configure', { queue: 'q', concurrency: 1 }, 'concurrency'],
];

test('params that do not fit the schema are BAD_REQUEST with the path, and nothing is stored', async () => {
  const wire = await daemon().session();
  await unchanged(async () => {
    for (const [op, params, path] of bad) {
      const error = await wire.refused(op, params);
      expect([op, JSON.stringify(params).slice(0, 200), error.code, error.path, error.retry]).toEqual([
        op,
        JSON.stringify(params).slice(0, 200),
        'BAD_REQUEST',
        path,
        false,
      ]);
    }
    expect((await stats(wire, 'q')).states).toMatchObject({ ready: 0, scheduled: 0 });
  });
});

test('a lone surrogate is no name, and one in a payload comes back as it was sent', async () => {
  const wire = await daemon().session();
  await unchanged(async () => {
    expect(await wire.refused('queue.enqueue', { queue: '\ud800', tasks: [task] })).toMatchObject({
      code: 'BAD_REQUEST',
      path: 'queue',
    });
    expect(await wire.refused('queue.enqueue', { queue: 'q', tasks: [{ payload: 1, kind: 'a\udfff' }] })).toMatchObject(
      { code: 'BAD_REQUEST', path: 'tasks[0].kind' },
    );
  });
  const queue = freshQueue();
  await put(wire, queue, { payload: '\ud800' });
  expect((await claimOne(wire, queue)).payload).toBe('\ud800');
});

const contradictions: [string, Any][] = [
  ['queue.configure', { queue: 'q', backoff: { baseMs: 5000, capMs: 1000 } }],
  ['queue.work', { queue: 'q', credit: 1, kinds: ['a', 'a'] }],
  ['queue.purge', { queue: 'q', state: 'active' }],
  ['queue.purge', { queue: 'q', tasks: ['t'], filter: { kind: 'a' } }],
  ['queue.redrive', { queue: 'q', state: 'completed' }],
  ['queue.redrive', { queue: 'q', tasks: ['t'], cursor: 'dead|' }],
];
test('fields that contradict each other are INVALID', async () => {
  const wire = await daemon().session();
  await unchanged(async () => {
    for (const [op, params] of contradictions)
      expect([op, (await wire.refused(op, params)).code]).toEqual([op, 'INVALID']);
  });
});

test('what is too large or contradicts itself fails its item alone', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const large = 'x'.repeat(1999);
  const results = await put(
    wire,
    queue,
    { payload: 1, task: 'before' },
    { payload: large },
    { payload: '€'.repeat(700) },
    { payload: 1, metadata: 'x'.repeat(500) },
    { payload: 1, delayMs: 5, runAt: '2030-01-01T00:00:00Z' },
    { payload: 1, backoff: { baseMs: 90_000 } },
    { payload: 'x'.repeat(1998), task: 'exactly' },
  );
  expect(results.map((row) => row.error?.code ?? row.state)).toEqual([
    'ready',
    'TOO_LARGE',
    'TOO_LARGE',
    'TOO_LARGE',
    'INVALID',
    'INVALID',
    'ready',
  ]);
  expect(results[1].error.details).toEqual({ bytes: 2001, max: 2000 });
  expect(await stats(wire, queue)).toMatchObject({ depth: 2, states: { ready: 2 } });
  const first = await claimOne(wire, queue);
  const second = await claimOne(wire, queue);
  await unchanged(async () => {
    expect((await complete(wire, { ...first, result: large }))[0].error.code).toBe('TOO_LARGE');
    expect((await fail(wire, first, { error: { message: 'x'.repeat(600) } })).error.code).toBe('TOO_LARGE');
    expect((await release(wire, first, { saved: 'x'.repeat(600) })).error.code).toBe('TOO_LARGE');
    expect(
      (await wire.refused('queue.progress', { task: first.task, fence: first.fence, progress: 'x'.repeat(600) })).code,
    ).toBe('TOO_LARGE');
    expect(
      (
        await wire.refused('queue.progress', {
          task: first.task,
          fence: first.fence,
          progress: 1,
          saved: 'x'.repeat(600),
        })
      ).code,
    ).toBe('TOO_LARGE');
  });
  expect(await complete(wire, { ...first, result: large }, second)).toMatchObject([
    { error: { code: 'TOO_LARGE' } },
    { state: 'completed' },
  ]);
  await complete(wire, first);
});

test('unknown tasks are NOT_FOUND, stale fences say what is current', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  await put(wire, queue, { payload: 1, task: 'held' });
  const held = await claimOne(wire, queue);
  const stale = { task: 'held', fence: held.fence - 1 };
  const details = { yours: stale.fence, current: held.fence };
  await unchanged(async () => {
    const unknown = { task: 'nobody', fence: 1 };
    expect(await complete(wire, unknown, stale)).toMatchObject([
      { error: { code: 'NOT_FOUND' } },
      { error: { code: 'STALE_FENCE', details } },
    ]);
    expect((await fail(wire, unknown)).error.code).toBe('NOT_FOUND');
    expect((await fail(wire, stale)).error).toMatchObject({ code: 'STALE_FENCE', details });
    expect((await release(wire, unknown)).error.code).toBe('NOT_FOUND');
    expect((await release(wire, stale)).error).toMatchObject({ code: 'STALE_FENCE', details });
    expect((await wire.refused('queue.progress', { ...unknown, progress: 1 })).code).toBe('NOT_FOUND');
    expect(await wire.refused('queue.progress', { ...stale, progress: 1 })).toMatchObject({
      code: 'STALE_FENCE',
      details,
    });
    for (const op of ['cancel', 'update', 'get', 'result'])
      expect((await wire.refused(`queue.${op}`, { task: 'nobody' })).code).toBe('NOT_FOUND');
    expect((await wire.refused('queue.update', { task: 'nobody', priority: 3 })).code).toBe('NOT_FOUND');
    expect((await wire.refused('queue.credit', { worker: 'nobody', credit: 1 })).code).toBe('NOT_FOUND');
  });
  const other = await daemon().session();
  await unchanged(async () => {
    expect((await complete(other, held))[0].error).toMatchObject({ code: 'STALE_FENCE' });
    expect((await fail(other, held)).error).toMatchObject({ code: 'STALE_FENCE' });
    expect((await release(other, held)).error).toMatchObject({ code: 'STALE_FENCE' });
  });
  await complete(wire, held);
});

test('a queue has at most kindsMax kinds in use, tasks without a kind beside them', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const made = await put(
    wire,
    queue,
    { payload: 1 },
    { payload: 1, kind: 'a' },
    { payload: 1, kind: 'b' },
    { payload: 1, kind: 'c' },
    { payload: 1, kind: 'd' },
    { payload: 1, kind: 'a' },
  );
  expect(made.map((row) => row.error?.code ?? row.state)).toEqual([
    'ready',
    'ready',
    'ready',
    'ready',
    'LIMIT',
    'ready',
  ]);
  const [task] = await wire.call('queue.claim', { queue, kinds: ['c'] }).then((ok: Any) => ok.tasks);
  await complete(wire, task);
  expect(await put(wire, queue, { payload: 1, kind: 'd' })).toMatchObject([{ state: 'ready' }]);
  await wire.call('queue.purge', { queue });
});

test('without a session only reads are answered', async () => {
  const wire: Wire = await daemon().wire();
  for (const [op, params] of [
    ['enqueue', { queue: 'q', tasks: [task] }],
    ['claim', { queue: 'q' }],
    ['cancel', { task: 't' }],
    ['pause', { queue: 'q' }],
  ] as const) {
    expect((await wire.refused(`queue.${op}`, params)).code).toBe('NO_SESSION');
  }
  expect((await wire.call('queue.stats', { queue: 'nothing' })).queues[0]).toMatchObject({ depth: 0, paused: false });
  expect(await wire.call('queue.list', { queue: 'nothing', state: 'ready' })).toEqual({ tasks: [] });
  expect((await wire.refused('queue.get', { task: 'nothing' })).code).toBe('NOT_FOUND');
});

test('numbers a script could trip over: instants long ago and far away', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  const made = await put(
    wire,
    queue,
    { payload: 1, runAt: '1969-12-31T23:59:59Z' },
    { payload: 1, runAt: '0001-01-01T00:00:00Z' },
    { payload: 1, runAt: '9999-12-31T23:59:59.999Z', task: 'far' },
    { payload: 1, delayMs: 366 * 86_400_000, deadlineMs: 366 * 86_400_000 },
  );
  expect(made.map((row) => row.error?.code ?? row.state)).toEqual(['ready', 'ready', 'scheduled', 'scheduled']);
  expect((await get(wire, 'far')).runAt).toBe('9999-12-31T23:59:59.999Z');
  await wire.call('queue.update', { task: 'far', runAt: '1969-01-01T00:00:00Z' });
  expect((await get(wire, 'far')).state).toBe('ready');
  expect((await wire.call('queue.purge', { queue })).count).toBe(4);
});
