import { describe, expect, it } from 'vitest';
import { type Client, client, frame, type Station, station, useStations, Wire } from './support.js';

useStations();

/** Sent by a socket that has upgraded by hand, before a session or after; answers the close code it was given. */
type Attack = (wire: Wire) => void;

const oneGiB = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4]);
const crumbs = (): Buffer =>
  Buffer.concat([frame('a', { first: 0x01 }), ...Array.from({ length: 20_000 }, () => frame('a', { first: 0x00 }))]);

const attacks: [string, number, Attack][] = [
  ['an unmasked frame', 1002, (wire) => wire.socket.write(frame('{"id":1,"op":"ping"}', { masked: false }))],
  ['RSV1', 1002, (wire) => wire.socket.write(frame('x', { first: 0xc1 }))],
  ['RSV2 and RSV3', 1002, (wire) => wire.socket.write(frame('x', { first: 0xb1 }))],
  ['an unknown opcode', 1002, (wire) => wire.socket.write(frame('x', { first: 0x83 }))],
  ['a fragmented ping', 1002, (wire) => wire.socket.write(frame('x', { first: 0x09 }))],
  ['a ping of 126 bytes', 1002, (wire) => wire.socket.write(frame('x'.repeat(126), { first: 0x89 }))],
  ['a continuation of nothing', 1002, (wire) => wire.socket.write(frame('x', { first: 0x80 }))],
  ['close code 1006', 1002, (wire) => wire.socket.write(frame(Buffer.from([3, 0xee]), { first: 0x88 }))],
  ['a close frame of one byte', 1002, (wire) => wire.socket.write(frame(Buffer.from([3]), { first: 0x88 }))],
  ['invalid UTF-8', 1007, (wire) => wire.socket.write(frame(Buffer.from([0xc3, 0x28])))],
  ['a surrogate in UTF-8', 1007, (wire) => wire.socket.write(frame(Buffer.from([0xed, 0xa0, 0x80])))],
  [
    'invalid UTF-8 in a close reason',
    1007,
    (wire) => wire.socket.write(frame(Buffer.from([3, 0xe8, 0xff]), { first: 0x88 })),
  ],
  ['a header announcing 1 GiB', 1009, (wire) => wire.socket.write(oneGiB)],
  ['20,000 fragments of one byte, never finished', 1008, (wire) => wire.socket.write(crumbs())],
];

/** Lines a client cannot be answered to by id. */
const unanswerable: [string, string][] = [
  ['nothing', ''],
  ['an empty object', '{}'],
  ['an array', '[]'],
  ['null', 'null'],
  ['a string', '"x"'],
  ['a number', '7'],
  ['no JSON', '{"id":1,'],
  ['a depth of 100,000', '['.repeat(100_000)],
  [
    'a depth of 100,000 behind an id',
    `{"id":1,"op":"ping","params":{"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`,
  ],
  ['a depth of 33', `{"id":1,"op":"ping","params":{"data":${'['.repeat(31)}${']'.repeat(31)}}}`],
  ['an infinite id', '{"id":1e999,"op":"ping"}'],
  ['id 0', '{"id":0,"op":"ping"}'],
  ['a negative id', '{"id":-1,"op":"ping"}'],
  ['half an id', '{"id":1.5,"op":"ping"}'],
  ['an id of 2^53', '{"id":9007199254740992,"op":"ping"}'],
  ['an id in quotes', '{"id":"1","op":"ping"}'],
  ['an id of null', '{"id":null,"op":"ping"}'],
  ['no id', '{"op":"ping"}'],
  ['an id inherited by __proto__', '{"__proto__":{"id":1,"op":"ping"}}'],
  ['a byte order mark', '\ufeff{"id":1,"op":"ping"}'],
  ['two objects on one line', '{"id":1,"op":"ping"}{"id":2,"op":"ping"}'],
];

/** Lines with a usable id: what is wrong comes as the reply, and where. */
const refused: [string, string, string, string | undefined][] = [
  ['no op', '{"id":1}', 'BAD_REQUEST', 'op'],
  ['an op that is no string', '{"id":1,"op":["ping"]}', 'BAD_REQUEST', 'op'],
  ['an unknown op', '{"id":1,"op":"nonsense"}', 'UNKNOWN_OP', undefined],
  ['the op __proto__', '{"id":1,"op":"__proto__"}', 'UNKNOWN_OP', undefined],
  ['the op constructor', '{"id":1,"op":"constructor"}', 'UNKNOWN_OP', undefined],
  ['params null', '{"id":1,"op":"echo","params":null}', 'BAD_REQUEST', 'params'],
  ['params []', '{"id":1,"op":"echo","params":[]}', 'BAD_REQUEST', 'params'],
  ['an unknown field', '{"id":1,"op":"echo","params":{"texts":"a"}}', 'BAD_REQUEST', 'texts'],
  ['a field __proto__', '{"id":1,"op":"echo","params":{"__proto__":{"text":"a"}}}', 'BAD_REQUEST', '__proto__'],
  ['a wrong type', '{"id":1,"op":"echo","params":{"text":7}}', 'BAD_REQUEST', 'text'],
  ['a missing field', '{"id":1,"op":"put","params":{"queue":"q"}}', 'BAD_REQUEST', 'tasks'],
  [
    'a wrong item',
    '{"id":1,"op":"put","params":{"queue":"q","tasks":[{"payload":1},{"payload":1,"priority":101}]}}',
    'BAD_REQUEST',
    'tasks[1].priority',
  ],
  [
    'an item without a payload',
    '{"id":1,"op":"put","params":{"queue":"q","tasks":[{}]}}',
    'BAD_REQUEST',
    'tasks[0].payload',
  ],
  [
    'a wrong label',
    '{"id":1,"op":"put","params":{"queue":"q","tasks":[{"payload":1,"labels":{"a":1}}]}}',
    'BAD_REQUEST',
    'tasks[0].labels.a',
  ],
  [
    'a wrong option of a union',
    '{"id":1,"op":"put","params":{"queue":"q","tasks":[],"how":{"all":1}}}',
    'BAD_REQUEST',
    'how.all',
  ],
  ['too many items', '{"id":1,"op":"put","params":{"queue":"q","tasks":[{},{},{},{}]}}', 'BAD_REQUEST', undefined],
];

async function upgraded(at: Station, withSession: boolean): Promise<Wire> {
  const wire = new Wire(at.port);
  await wire.upgrade();
  if (withSession) wire.socket.write(frame('{"id":1,"op":"session.open","params":{"agent":"a"}}'));
  await wire.until((received) => received.includes(withSession ? '"ok"' : '"hello"'));
  return wire;
}

async function opened(at: Station, withSession: boolean): Promise<Client> {
  const one = await client(at);
  if (withSession) await one.call('session.open', { agent: 'a' });
  return one;
}

describe.each([
  ['before a session', false],
  ['with a session', true],
])('%s', (_, withSession) => {
  it.each(attacks)('%s closes that socket with %d and no other', async (_name, code, attack) => {
    const at = await station();
    const neighbour = await client(at);
    const wire = await upgraded(at, withSession);
    attack(wire);
    expect(await wire.closeCode()).toBe(code);
    await at.until(() => at.endings.length === 1);
    expect(at.endings[0]!.how).toBe('broken');
    expect((await neighbour.call('echo', { text: 'fine' })).ok).toEqual({ text: 'fine' });
  });

  it.each(unanswerable)('%s is a BAD_FRAME push and the connection goes on', async (_name, line) => {
    const at = await station();
    const one = await opened(at, withSession);
    one.ws.send(line);
    expect((await one.push('error')).error).toMatchObject({ code: 'BAD_FRAME', retry: false });
    one.send({ id: 77, op: 'echo', params: { text: 'on' } });
    expect((await one.reply(77)).ok).toEqual({ text: 'on' });
  });

  it.each(refused)('%s is answered to its id', async (_name, line, code, path) => {
    const at = await station();
    const one = await opened(at, withSession);
    one.ws.send(line.replace('"id":1', '"id":55'));
    const { error } = await one.reply(55);
    expect(error.code).toBe(code);
    if (path !== undefined) expect(error.path).toBe(path);
    expect((await one.call('ping')).ok).toBeDefined();
  });
});

describe('bad frames', () => {
  it('close with 4400 at the third within a minute, a `closed` line ahead; binary messages count', async () => {
    const at = await station();
    const one = await client(at);
    one.ws.send(Buffer.from('{"id":1,"op":"ping"}'), { binary: true });
    one.ws.send('[]');
    await one.call('ping');
    expect(one.lines.filter((line) => line.op === 'error')).toHaveLength(2);
    one.ws.send('nonsense');
    expect(await one.closed).toMatchObject({ code: 4400 });
    expect(one.lines.filter((line) => line.op === 'error')).toHaveLength(3);
    expect(one.lines.at(-1)).toMatchObject({ op: 'closed', code: 4400 });
  });

  it('with an id never close, however many', async () => {
    const at = await station();
    const one = await client(at);
    for (let i = 0; i < 50; i++) await one.call('nonsense');
    expect((await one.call('ping')).ok).toBeDefined();
  });

  it('leave the rest of their message unread once they close', async () => {
    const at = await station();
    const one = await client(at);
    one.send('1', '2', '3', { id: 9, op: 'ping' });
    await one.closed;
    expect(one.lines.some((line) => line.id === 9)).toBe(false);
  });

  it('of all kinds from many sockets at once leave nothing behind', async () => {
    const at = await station();
    for (let round = 0; round < 10; round++) {
      const wires = await Promise.all(attacks.map(() => upgraded(at, false)));
      for (const [i, wire] of wires.entries()) attacks[i]![2](wire);
      await Promise.all(wires.map((wire) => wire.ended));
    }
    await at.gateway.registry.empty();
    expect(at.endings).toHaveLength(10 * attacks.length);
    expect(at.gateway.connectionsOf('127.0.0.1')).toBe(0);
  });
});

describe('JSON', () => {
  it('nested 32 deep is taken', async () => {
    const at = await station();
    const one = await client(at);
    one.send(`{"id":1,"op":"ping","params":{"data":${'['.repeat(30)}${']'.repeat(30)}}}`);
    expect((await one.reply(1)).ok).toBeDefined();
  });

  it.each([
    '9007199254740993',
    '1.0',
    '"\\ud800"',
    '{"a":1,"a":2}',
    '{"payload":"\\u0041"}',
    '{"__proto__":{"x":1}}',
    'null',
    '"a\\\\"',
  ])('the kept value %s comes back byte for byte', async (value) => {
    const at = await station();
    const one = await client(at);
    one.send(`{"id":1,"op":"echo","params":{"payload":${value}}}`);
    await one.reply(1);
    expect(one.messages.at(-1)).toBe(`{"id":1,"ok":{"payload":${value}}}`);
  });

  it('with escapes in its keys means the same', async () => {
    const at = await station();
    const one = await client(at);
    one.send('{"\\u0069d":1,"op":"ech\\u006f","p\\u0061rams":{"pay\\u006coad":1.0}}');
    await one.reply(1);
    expect(one.messages.at(-1)).toBe('{"id":1,"ok":{"payload":1.0}}');
  });
});
