import { expect, test } from 'vitest';
import type { Any } from '../support/wire.js';
import { claim, claimOne, complete, drain, freshQueue, get, put, stats, useWorld, watch } from './support.js';

const { daemon } = useWorld();

const refused = ['', '\u0000', '\n', 'a\u0000b', '\u007f', '\ud800', 'x\udc00y', 'x'.repeat(300), '😀'.repeat(51)];
const kept = [
  '*',
  ':',
  'a:b',
  'a:',
  '{x}',
  '}{',
  '{}',
  '0',
  '-1',
  '+inf',
  '-inf',
  'nan',
  '$',
  '>',
  'null',
  'undefined',
  'true',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '😀',
  'é'.normalize('NFC'),
  'é'.normalize('NFD'),
  '../x',
  '%s',
  '%Z',
  '"\'',
  '\\',
  '/',
  '|',
  ',',
  ' ',
  '  a ',
  '007',
  '1e3',
  '9007199254740993',
  '-0',
  '0x10',
  '[]',
  '(',
  '!',
  '=',
  '!CODE {}',
  '=ready x',
  'a b',
  'x'.repeat(200),
  'ß',
  '\u2028',
  '\u200b',
  '‮abc',
  'ready',
  'waiting:q',
  'sb:{default}:meta',
  '1 0',
];

test('Q7: every odd name is refused clearly or comes back byte-exact, as queue, task, key, tenant and kind, events too', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon());
  for (const name of refused) {
    for (const params of [
      { queue: name, tasks: [{ payload: 1 }] },
      ...['task', 'key', 'tenant', 'kind'].map((field) => ({ queue: 'q7', tasks: [{ payload: 1, [field]: name }] })),
    ]) {
      expect((await wire.refused('queue.enqueue', params)).code).toBe('BAD_REQUEST');
    }
  }
  const made = await Promise.all(
    kept.map((name) =>
      wire.call('queue.enqueue', {
        queue: name,
        tasks: [{ payload: name, task: name, key: name, tenant: name, kind: name }],
      }),
    ),
  );
  expect(made.map(({ tasks }) => tasks)).toEqual(kept.map((task) => [{ task, state: 'ready' }]));
  const normal = Array.from({ length: 10 }, (_, i) => `normal-${i}`);
  await put(wire, 'normal', ...normal.map((name) => ({ payload: 1, task: name, tenant: name })));
  expect((await drain(wire, 'normal')).map(({ task }) => task).sort()).toEqual(normal);
  for (const name of kept) {
    expect(await stats(wire, name)).toMatchObject({
      queue: name,
      depth: 1,
      tenants: [{ tenant: name, waiting: 1, active: 0 }],
      kinds: [{ kind: name, waiting: 1, active: 0 }],
    });
    expect(await get(wire, name)).toMatchObject({
      task: name,
      queue: name,
      key: name,
      tenant: name,
      kind: name,
      payload: name,
      state: 'ready',
    });
    expect(
      (await wire.call('queue.list', { queue: name, state: 'ready', kind: name, tenant: name })).tasks,
    ).toMatchObject([{ task: name, kind: name, tenant: name, key: name }]);
    expect(await put(wire, name, { payload: name, key: name })).toEqual([
      { task: name, state: 'ready', deduplicated: true },
    ]);
    expect(await put(wire, name, { payload: 'other', key: name })).toMatchObject([
      { error: { code: 'KEY_CONFLICT', details: { task: name } } },
    ]);
    expect(await claim(wire, name, { kinds: ['another kind'] })).toEqual([]);
    const [task] = await claim(wire, name, { kinds: [name] });
    expect(task).toMatchObject({ task: name, queue: name, kind: name, payload: name });
    expect(await complete(wire, { ...task, result: name })).toEqual([{ state: 'completed' }]);
    expect(await wire.call('queue.result', { task: name })).toEqual({ state: 'completed', result: name });
    await watcher.event('task.completed', name);
    const about = watcher.events().filter(({ event }: Any) => event.subject === name);
    expect(about.map(({ event }: Any) => event.type)).toEqual(['task.enqueued', 'task.claimed', 'task.completed']);
    for (const { event } of about)
      expect(event.data).toMatchObject({ task: name, queue: name, tenant: name, kind: name });
  }
  // None of them has become another: as many tasks and queues as names.
  expect(new Set(kept).size).toBe(kept.length);
});

test('Q7: the attributes of an event can be asked for by any name', async () => {
  const wire = await daemon().session();
  for (const name of ['*', '__proto__', '007', 'é'.normalize('NFD'), '/', '"\'']) {
    const watcher = await watch(daemon(), ['task.>'], { tenant: name });
    const [{ task }] = (await put(wire, 'by tenant', { payload: 1, tenant: name })) as [Any];
    await put(wire, 'by tenant', { payload: 1, tenant: `${name}x` });
    await watcher.event('task.enqueued', task);
    expect(watcher.events().length).toBe(1);
    expect(watcher.events()[0].event.data.tenant).toBe(name);
  }
  await drain(wire, 'by tenant');
});

test('workers with odd names and kinds are pushed what is theirs', async () => {
  const wire = await daemon().session();
  const queue = freshQueue();
  for (const name of ['__proto__', '*', '😀']) {
    await wire.call('queue.work', { queue, credit: 1, worker: name, kinds: [name] });
    await put(wire, queue, { payload: name, kind: name });
    const line = await wire.next((line) => line.op === 'tasks' && line.worker === name);
    expect(line.tasks).toMatchObject([{ kind: name, payload: name }]);
    expect((await get(wire, line.tasks[0].task)).worker).toBe(name);
    await complete(wire, line.tasks[0]);
    await wire.call('queue.credit', { worker: name, credit: 0 });
  }
});

test('payload, metadata, progress, saved, result and error data come back as the bytes that were sent', async () => {
  const wire = await daemon().session();
  const watcher = await watch(daemon(), ['task.>']);
  const queue = freshQueue();
  const odd = '{"n":9007199254740993,"f":1.0,"e":1E+2,"dup":1,"dup":2,"u":"\\ud83d\\ude00\\u0000","s":\t[ 1 ,\t2 ]}';
  const raw = (op: string, params: string): Promise<Any> => {
    const id = 1_000_000 + wire.lines.length;
    wire.send(`{"id":${id},"op":"${op}","params":${params}}`);
    return wire
      .next((line) => line.id === id)
      .then((line) => line.ok ?? Promise.reject(new Error(JSON.stringify(line))));
  };
  const texts: string[] = [];
  wire.socket.on('message', (data) => texts.push(String(data)));
  const has = (what: string): void => expect(texts.join('\n').includes(what), what).toBe(true);
  await raw('queue.enqueue', `{"queue":"${queue}","tasks":[{"task":"bytes","payload":${odd},"metadata":${odd}}]}`);
  const [task] = (await raw('queue.claim', `{"queue":"${queue}"}`)).tasks;
  has(`"metadata":${odd}`);
  has(`"payload":${odd}`);
  await raw('queue.progress', `{"task":"bytes","fence":${task.fence},"progress":${odd},"saved":${odd}}`);
  await raw('queue.get', '{"task":"bytes"}');
  has(`"progress":${odd},"saved":${odd}`);
  await raw(
    'queue.fail',
    `{"tasks":[{"task":"bytes","fence":${task.fence},"error":{"message":"m","data":${odd}},"afterMs":1}]}`,
  );
  await raw('queue.update', '{"task":"bytes","runAt":"2000-01-01T00:00:00Z"}');
  const again = await claimOne(wire, queue);
  await raw('queue.complete', `{"tasks":[{"task":"bytes","fence":${again.fence},"result":${odd}}]}`);
  await raw('queue.result', '{"task":"bytes"}');
  has(`"result":${odd}`);
  await raw('queue.get', '{"task":"bytes"}');
  has(`"data":${odd}`);
  // A tab between two words of JSON must not part the event from its data.
  await watcher.event('task.completed', 'bytes');
  expect(watcher.events().map(({ event }) => event.type)).toContain('task.progressed');
  expect((await watcher.event('task.progressed', 'bytes')).event.data.progress.s).toEqual([1, 2]);
  expect((await watcher.event('task.retried', 'bytes')).event.data.error.data.s).toEqual([1, 2]);
});
