import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { publishedArgs } from '../../src/feed/published.js';
import { readMessage } from '../../src/ingress/message.js';

const read = (payload: string | Buffer, type = 'a.b', max = 65_536) => readMessage(type, Buffer.from(payload), max);
const cloud = (more: object = {}): string =>
  JSON.stringify({ specversion: '1.0', id: 'i', source: 's', type: 'order.paid', ...more });

describe('plain JSON', () => {
  test('any JSON is data of the channel’s type, byte for byte', () => {
    for (const data of [
      '{"n":9007199254740993,"x":1.0,"x":2}',
      '[1, 2]',
      '"text"',
      '0',
      'null',
      'true',
      '{"a":"\\ud800"}',
      '{"é":"日本"}',
    ]) {
      expect(read(data)).toEqual({ type: 'a.b', data, source: 'redis:publish' });
    }
  });

  test('space around it goes, tabs and newlines between tokens become spaces in the row', () => {
    const event = read(' {\n\t"a":\r\n1} ') as { type: string; data: string; source: string };
    expect(publishedArgs(event)[2]).toBe('{  "a":  1}');
  });

  test('what is not JSON is not an event', () => {
    for (const bad of ['', ' ', 'hello', '{', '{"a":}', "{'a':1}", '1 2', 'undefined', 'NaN', '{"a":"\u0001"}'])
      expect(read(bad), bad).toBe('notJson');
    expect(read(Buffer.from([0x22, 0xff, 0x22]))).toBe('notUtf8');
    expect(read('['.repeat(33) + ']'.repeat(33))).toBe('tooDeep');
    expect(read('['.repeat(100_000), 'a', 1 << 20)).toBe('tooDeep');
    expect(read('['.repeat(32) + ']'.repeat(32))).toMatchObject({ type: 'a.b' });
  });

  test('sizes', () => {
    expect(read(`"${'x'.repeat(98)}"`, 'a', 100)).toMatchObject({ type: 'a' });
    expect(read(`"${'x'.repeat(99)}"`, 'a', 100)).toBe('tooLarge');
    expect(read(`"${'é'.repeat(50)}"`, 'a', 100)).toBe('tooLarge');
    expect(read(`"${'x'.repeat(10_000)}"`, 'a', 100)).toBe('tooLarge');
  });

  test('types', () => {
    for (const type of ['', '.', 'a.', 'a..b', 'a.*', '>', 'a b', 'a\nb', 'x'.repeat(201)])
      expect(read('1', type), type).toBe('malformedType');
    for (const type of ['task', 'task.completed', 'ingress.gap', 'feed.x', 'epoch.began'])
      expect(read('1', type)).toBe('reservedType');
    for (const type of ['tasks', 'my.task', 'Task.x', 'a:b', 'ä.日本']) expect(read('1', type)).toMatchObject({ type });
  });
});

describe('a CloudEvent', () => {
  test('its own type, id, source, subject, time and data count', () => {
    const text =
      '{ "specversion":"1.0","id":"i","source":"/s","type":"order.paid","subject":"o 1","time":"2026-01-02T03:04:05+01:00","data": {"n":1.0,"data":{"n":2}} ,"ext":1}';
    expect(read(text, 'what.ever')).toEqual({
      type: 'order.paid',
      id: 'i',
      source: '/s',
      subject: 'o 1',
      time: '2026-01-02T03:04:05+01:00',
      data: '{"n":1.0,"data":{"n":2}}',
    });
    expect(read(cloud(), '*')).toMatchObject({ type: 'order.paid', data: 'null' });
    expect(read('{"specversion":"1","id":"i","source":"s","type":"a","data":1,"data":2}')).toMatchObject({ data: '2' });
  });

  test('less than the four strings is plain data', () => {
    for (const more of [{ id: 1 }, { source: null }, { specversion: undefined }, { type: {} }])
      expect(read(cloud(more))).toMatchObject({ type: 'a.b' });
  });

  test('reserved and malformed types, attributes out of bounds, binary data', () => {
    expect(read(cloud({ type: 'task.completed' }))).toBe('reservedType');
    expect(read(cloud({ type: 'a..b' }))).toBe('malformedType');
    for (const more of [
      { id: '' },
      { id: 'x'.repeat(201) },
      { source: 'a\nb' },
      { subject: '' },
      { subject: 5 },
      { time: 'yesterday' },
      { id: '\ud800' },
    ]) {
      expect(read(cloud(more)), JSON.stringify(more)).toBe('malformedEvent');
    }
    expect(read(cloud({ data_base64: 'AAAA' }))).toBe('binaryData');
    expect(read(cloud({ data: 'x'.repeat(200) }), 'a', 100)).toBe('tooLarge');
  });
});

test('no bytes make it throw, and what it takes stays one row', () => {
  const seed = Date.now() % 1_000_000;
  console.log(`seed ${seed}`);
  const payloads = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .record({
        specversion: fc.string(),
        id: fc.string(),
        source: fc.string(),
        type: fc.string(),
        data: fc.jsonValue(),
        subject: fc.anything(),
      })
      .map((event) => Buffer.from(JSON.stringify(event))),
  );
  fc.assert(
    fc.property(payloads, fc.string(), (payload, type) => {
      const event = readMessage(type, payload, 65_536);
      if (typeof event === 'string') return;
      const [name, subject, data, id, source] = publishedArgs(event) as [string, string, string, string, string];
      for (const column of [name, subject, data, id, source]) expect(column).not.toMatch(/[\t\n\r]/);
      for (const json of [subject, data, id, source]) JSON.parse(json);
    }),
    { seed, numRuns: 2000 },
  );
});
