import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorld, type World } from '../support/daemon.js';
import type { Wire } from '../support/wire.js';
import { cli, json, start } from './cli.js';

let world: World;
let env: NodeJS.ProcessEnv;
let agent: Wire;
beforeAll(async () => {
  world = await startWorld();
  agent = await world.daemon.session();
  env = { SIGNALBOX_URL: world.daemon.url };
});
afterAll(() => world.stop());

const publish = (type: string, data: unknown) => agent.call('feed.publish', { events: [{ type, data }] });

test('status: a proxy that lets only the WebSocket through and answers the rest itself says nothing of the daemon', async () => {
  const proxy = createServer((_, response) => response.writeHead(404).end('{"error":"not here"}'));
  proxy.on('upgrade', (request, socket, head) => {
    const to = connect(Number(new URL(world.daemon.url).port), '127.0.0.1', () => {
      const headers = request.rawHeaders.map((text, i) => text + (i % 2 === 0 ? ': ' : '\r\n'));
      to.write(`GET ${request.url} HTTP/1.1\r\n${headers.join('')}\r\n`);
      to.write(head);
      socket.pipe(to).pipe(socket);
    });
    to.on('error', () => socket.destroy());
    socket.on('error', () => to.destroy());
  });
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening));
  const url = new URL(world.daemon.url);
  url.port = String((proxy.address() as AddressInfo).port);
  const { code, out } = await cli(['status', '--url', url.href]);
  expect(out).toMatch(/^ws:\/\/\S+: connected\n/);
  expect(code).toBe(0);
  await new Promise((closed) => proxy.close(closed));
});

test('tail prints what happens, one event a line, of the patterns only', async () => {
  const tail = start(['tail', 'tail1.>', '--count', '2', '--from', 'all', '--json'], { env });
  await publish('tail1.a', { n: 1 });
  await publish('tail2.a', { n: 2 });
  await publish('tail1.b.c', 'two\nlines');
  const { code, out } = await tail.ended;
  expect(code).toBe(0);
  const events = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events.map(({ event }) => [event.type, event.data])).toEqual([
    ['tail1.a', { n: 1 }],
    ['tail1.b.c', 'two\nlines'],
  ]);
  expect(events[0].position).toMatch(/:\d+$/);
  const plain = await cli(['tail', 'tail1.*', '--from', 'all', '--count', '1'], { env });
  expect(plain.out).toMatch(/^\d{4}-\S+Z tail1\.a \{"n":1\}\n$/);
});

test('tail goes on from a position, and by attributes', async () => {
  const { next: from } = await agent.call('feed.read', { from: 'new' });
  for (const queue of ['where1', 'where2'])
    await agent.call('queue.enqueue', { queue, tasks: [{ task: `in-${queue}`, payload: 1 }] });
  const { out } = await cli(['tail', 'task.*', '--from', from, '--where', 'queue=where2', '--count', '1'], { env });
  expect(out).toContain('task.enqueued in-where2 {"queue":"where2"');
});

test('tail goes on where it was when its daemon is exchanged; Ctrl-C says where that is', async () => {
  const [first, second] = [await world.another(), await world.another()];
  const tail = start(['tail', 'cut.*', '--from', 'all', '--url', first.url], { env });
  await publish('cut.first', 1);
  await tail.until((out) => out.includes('cut.first'));
  await first.kill();
  await publish('cut.meanwhile', 2);
  await tail.until((_, err) => err.includes('connection lost'));
  tail.process.kill('SIGINT');
  const { code, err } = await tail.ended;
  expect(code).toBe(0);
  const [, position] = /-- go on with --from (\w+:\d+)\n/.exec(err)!;
  const next = await cli(['tail', 'cut.*', '--from', position!, '--url', second.url, '--count', '1']);
  expect(next.out).toContain('cut.meanwhile 2');
});

test('status: queues, sessions and the daemon, as a table and as JSON', async () => {
  const busy = await world.daemon.session({ agent: 'busy-one' });
  await busy.call('queue.work', { queue: 'status', credit: 1 });
  await agent.call('queue.enqueue', { queue: 'status', tasks: [{ payload: 1 }, { payload: 2 }, { payload: 3 }] });
  await busy.tasksUntil(1);
  const { daemon, queues, sessions } = await json(['status'], { env });
  expect(daemon).toMatchObject({ status: 'ready', reasons: [], redis: 'up', workers: 1 });
  expect(queues).toContainEqual(expect.objectContaining({ queue: 'status', depth: 2, overloaded: false }));
  expect(sessions).toContainEqual(
    expect.objectContaining({ tasks: 1, holder: expect.objectContaining({ agent: 'busy-one' }) }),
  );
  const { out } = await cli(['status'], { env });
  expect(out).toMatch(/, \d+ connections, \d+ sessions, 1 worker\n/);
  expect(out).toMatch(/QUEUE +READY +ACTIVE/);
  expect(out).toMatch(/status +2 +1 +0/);
  expect(out).toMatch(/busy-one +1 +/);
});

test('call: any op, checked by its schema before anything is sent', async () => {
  expect(await json(['call', 'queue.stats', '{"queue":"nothing"}'], { env })).toMatchObject({ queues: [{ depth: 0 }] });
  expect(await json(['call', 'ping', '{"data":{"x":1}}'], { env })).toMatchObject({ data: { x: 1 } });
  expect(await json(['call', 'queue.list', '{"queue":"q","state":"ready","namespace":"elsewhere"}'], { env })).toEqual({
    tasks: [],
  });
  const wrong = await cli(['call', 'queue.enqueue', '{"queue":"q","tasks":[{"payload":1,"priority":101}]}'], { env });
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain('tasks.0.priority');
  const unknown = await cli(['call', 'queue.enqueu'], { env });
  expect([unknown.code, unknown.err]).toEqual([
    2,
    'signalbox: there is no op "queue.enqueu"\n  `signalbox call` lists them\n',
  ]);
  const missing = await cli(['call', 'queue.get', '{"task":"nobody"}', '--json'], { env });
  expect(missing.code).toBe(1);
  expect(JSON.parse(missing.err)).toMatchObject({ error: { code: 'NOT_FOUND', retry: false } });
  expect((await cli(['call'], { env })).out).toMatch(/queue\.enqueue +Put tasks/);
  const schema = JSON.parse((await cli(['call', 'queue.get', '--schema'], { env })).out);
  expect(schema.params).toMatchObject({ required: ['task'] });
});

test('call: a batch of which an item was refused ends with 1', async () => {
  const params = '{"queue":"q","tasks":[{"payload":1},{"payload":1,"delayMs":1,"runAt":"2026-01-01T00:00:00Z"}]}';
  const { code, out } = await cli(['call', 'queue.enqueue', params], { env });
  expect(code).toBe(1);
  expect(JSON.parse(out).tasks[1].error.code).toBe('INVALID');
});

test('no daemon, no JSON, no such option: what was wrong, with which value, and what to do', async () => {
  const nobody = await cli(['status', '--url', 'ws://127.0.0.1:1']);
  expect(nobody.code).toBe(1);
  expect(nobody.err).toContain('no daemon at ws://127.0.0.1:1/v1/ws: connect ECONNREFUSED');
  expect(nobody.err).toContain('signalbox up');
  const payload = await cli(['enqueue', 'q', 'hello'], { env });
  expect(payload.code).toBe(2);
  expect(payload.err).toContain('the payload "hello" is no JSON');
  const option = await cli(['enqueue', 'q', '1', '--priority', '200'], { env });
  expect(option.code).toBe(2);
  expect(option.err).toContain("argument '200' is invalid. expected a whole number from 0 to 100");
  expect((await cli(['frobnicate'])).code).toBe(2);
  expect((await cli(['tail', '--where', 'colour=red'], { env })).err).toContain(
    '--where colour: there are queue, task',
  );
  const position = await cli(['tail', '--from', 'nonsense'], { env });
  expect([position.code, position.err.includes('BAD_POSITION')]).toEqual([1, true]);
});

test('a daemon with a token: without one, or with a wrong one, the command says how to give it', async () => {
  const guarded = await world.another({ 'gateway.token': 'secret' });
  const without = await cli(['status', '--url', guarded.url]);
  expect(without.code).toBe(1);
  expect(without.err).toContain('--token or $SIGNALBOX_TOKEN');
  const wrong = await cli(['status', '--url', guarded.url, '--token', 'guess']);
  expect(wrong.code).toBe(1);
  expect(wrong.err).toContain('--token or $SIGNALBOX_TOKEN');
  const right = await cli(['enqueue', 'guarded', '--url', guarded.url], { env: { SIGNALBOX_TOKEN: 'secret' } });
  expect(right.code).toBe(0);
});
