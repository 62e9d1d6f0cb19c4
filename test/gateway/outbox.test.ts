import { describe, expect, it } from 'vitest';
import { Lanes } from '../../src/gateway/lanes.js';
import { client, frame, type Station, station, useStations, Wire } from './support.js';

useStations();

const event = (offset: number, fill = ''): string => `{"op":"event","offset":${offset},"event":{"fill":"${fill}"}}`;
const chunkOf = (...lines: string[]): [Buffer, number] => [Buffer.from(lines.join('\n')), lines.length];

/** A socket with a tail that reads nothing until it is told to. */
async function stopped(at: Station): Promise<Wire> {
  const wire = new Wire(at.port);
  await wire.upgrade();
  wire.socket.write(frame('{"id":1,"op":"feed.subscribe"}'));
  await wire.until((received) => received.includes('"s1"'));
  wire.socket.pause();
  return wire;
}

/** Writes feed lines while there is room, a window at a time, until the kernel takes no more. */
async function fill(at: Station): Promise<number> {
  const { sink } = at.tails.get(at.connection().id)!;
  let written = 0;
  for (;;) {
    while (sink.room() > 0) {
      sink.write(...chunkOf(event(++written, 'x'.repeat(60_000))));
    }
    // What the kernel takes it takes in the flush, or a moment later by the write's callback.
    const again = await Promise.race([
      new Promise<boolean>((resolve) => sink.onDrain(() => resolve(true))),
      new Promise<boolean>((resolve) => setTimeout(() => setImmediate(() => resolve(false)), 100)),
    ]);
    if (!again) return written;
  }
}

describe('one flush', () => {
  it('joins the lines of a turn into one message', async () => {
    const at = await station();
    const one = await client(at);
    const before = one.messages.length;
    for (let i = 0; i < 10; i++) at.connection().push(`{"op":"test","i":${i}}`);
    await one.line((line) => line.i === 9);
    expect(one.messages).toHaveLength(before + 1);
  });

  it('starts another message after 64 lines, and before one would be larger than lineBytes', async () => {
    const at = await station();
    const one = await client(at);
    for (let i = 0; i < 130; i++) at.connection().push(`{"op":"test","i":${i}}`);
    await one.line((line) => line.i === 129);
    const sizes = one.messages.slice(1).map((message) => message.split('\n').length);
    expect(sizes).toEqual([64, 64, 2]);
    for (let i = 0; i < 5; i++) at.connection().push(`{"op":"big","i":${i},"fill":"${'ä'.repeat(200_000)}"}`);
    await one.line((line) => line.op === 'big' && line.i === 4);
    for (const message of one.messages) expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024 * 1024);
    expect(one.lines.filter((line) => line.op === 'big').map((line) => line.i)).toEqual([0, 1, 2, 3, 4]);
  });

  it('writes control lines ahead of feed lines, each lane in its order', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('feed.subscribe');
    const connection = at.connection();
    const { sink } = at.tails.get(connection.id)!;
    sink.write(...chunkOf(event(1), event(2)));
    connection.push('{"op":"test","i":1}');
    sink.push('{"op":"gap"}');
    sink.write(...chunkOf(event(3)));
    connection.push('{"op":"test","i":2}');
    await one.line((line) => line.offset === 3);
    expect(one.lines.slice(2).map((line) => line.i ?? line.offset ?? line.op)).toEqual([1, 2, 1, 2, 'gap', 3]);
  });

  it('joins chunks up to 64 lines', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('feed.subscribe');
    const { sink } = at.tails.get(at.connection().id)!;
    const before = one.messages.length;
    for (let i = 0; i < 5; i++) sink.write(...chunkOf(...Array.from({ length: 30 }, (_, n) => event(i * 30 + n))));
    await one.line((line) => line.offset === 149);
    expect(one.messages.slice(before).map((message) => message.split('\n').length)).toEqual([60, 60, 30]);
  });

  it('has no event behind the reply to feed.unsubscribe that was written before', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('feed.subscribe');
    one.send(
      { id: 71, op: 'emit', params: { line: event(1) } },
      { id: 72, op: 'emit', params: { line: event(2) } },
      { id: 73, op: 'feed.unsubscribe' },
    );
    await one.reply(73);
    await one.call('ping');
    expect(one.lines.map((line) => line.offset ?? line.id).slice(-6, -1)).toEqual([1, 2, 71, 72, 73]);
  });
});

describe('sealing', () => {
  it('puts feed lines that wait ahead of the replies that follow', async () => {
    const at = await station();
    const one = await client(at);
    await one.call('feed.subscribe');
    const connection = at.connection();
    const { sink } = at.tails.get(connection.id)!;
    sink.write(...chunkOf(event(1)));
    sink.seal();
    connection.push('{"op":"test","i":1}');
    await one.push('test');
    expect(one.lines.slice(-2).map((line) => line.op)).toEqual(['event', 'test']);
  });

  it('does so in a socket that is blocked too, where unsealed lines still step aside', async () => {
    const at = await station();
    const wire = await stopped(at);
    const connection = at.connection();
    const { sink } = at.tails.get(connection.id)!;
    const written = await fill(at);
    sink.write(...chunkOf('{"sealed":1}'));
    sink.seal();
    sink.write(...chunkOf('{"aside":1}'));
    connection.push('{"control":1}');
    wire.socket.resume();
    await wire.until((received) => received.subarray(-200).includes('"aside"'));
    const text = wire.received.toString('latin1');
    const order = ['"sealed"', '"control"', '"aside"'].map((word) => text.indexOf(word));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(text.indexOf(`"offset":${written}`)).toBeLessThan(order[2]!);
  });
});

describe('a reader that stops', () => {
  it('has room for 256 KiB of feed lines at most, and its tail is woken when it reads on', async () => {
    const at = await station();
    const wire = await stopped(at);
    const { sink } = at.tails.get(at.connection().id)!;
    const written = await fill(at);
    expect(sink.room()).toBeLessThanOrEqual(0);
    expect(sink.room()).toBeGreaterThan(-70_000);
    const woken = new Promise<void>((resolve) => sink.onDrain(resolve));
    wire.socket.resume();
    await woken;
    expect(sink.room()).toBeGreaterThan(0);
    await wire.until((received) => received.subarray(-61_000).includes(`"offset":${written}`));
    expect(wire.received.toString('latin1').match(/"offset":/g)).toHaveLength(written);
  });

  it('disturbs no neighbour', async () => {
    const at = await station();
    await stopped(at);
    await fill(at);
    const one = await client(at);
    const startedAt = performance.now();
    for (let i = 0; i < 200; i++) await one.call('echo', { text: 'x' });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  it('still gets control lines ahead of feed lines that wait', async () => {
    const at = await station();
    const wire = await stopped(at);
    const connection = at.connection();
    const { sink } = at.tails.get(connection.id)!;
    await fill(at);
    sink.write(...chunkOf('{"feed":1}'));
    connection.push('{"control":1}');
    wire.socket.resume();
    await wire.until((received) => received.subarray(-100).includes('"feed"'));
    const text = wire.received.toString('latin1');
    expect(text.indexOf('"control"')).toBeLessThan(text.indexOf('"feed"'));
  });

  it('3a: keeps no task line for longer than receiptMs: it is silent, told once, and followed by what is said of it', async () => {
    const at = await station({ 'session.receiptMs': 200 });
    const wire = await stopped(at);
    await fill(at);
    const connection = at.connection();
    const deliveredAt = performance.now();
    at.deliver(connection, '{"op":"tasks","tasks":[]}');
    await at.until(() => at.fates.length === 1);
    expect(performance.now() - deliveredAt).toBeGreaterThanOrEqual(180); // a step of the wheel
    expect(at.fates).toEqual(['silent']);
    expect(at.endings).toEqual([]);
    connection.push('{"op":"revoked","tasks":[]}');
    wire.socket.resume();
    await wire.until((received) => received.includes('"revoked"'));
    expect(wire.received.indexOf('"op":"tasks"')).toBeLessThan(wire.received.indexOf('"op":"revoked"'));
    wire.socket.destroy();
    await at.until(() => at.endings.length === 1);
    expect(at.fates).toEqual(['silent']);
  });

  it('gives a task line that it takes in time the whole of receiptMs from then on', async () => {
    const at = await station({ 'session.receiptMs': 400 });
    const wire = await stopped(at);
    await fill(at);
    at.deliver(at.connection(), '{"op":"tasks","tasks":[]}');
    await new Promise((resolve) => setTimeout(resolve, 200)); // half of its time
    const takenAt = performance.now(); // at the earliest
    wire.socket.resume();
    await wire.until((received) => received.includes('"op":"tasks"'));
    await at.until(() => at.fates.length === 1);
    expect(performance.now() - takenAt).toBeGreaterThanOrEqual(380); // a step of the wheel
    expect(at.fates).toEqual(['silent']);
  });

  it('is closed with 4508 after stallMs, told why if it can be, and gone a second later', async () => {
    const at = await station({ 'gateway.stallMs': 200 });
    await stopped(at);
    await fill(at);
    await at.until(() => at.endings.length === 1);
    expect(at.endings[0]).toMatchObject({ how: 'stalled' });
    expect(at.endings[0]!.connection.closing).toMatchObject({ code: 4508 });
    expect([...at.tails.values()].map((tail) => tail.disposed)).toEqual([true]);
  });

  it('that drains some bytes every now and then is not stalled', async () => {
    const at = await station({ 'gateway.stallMs': 1000 });
    const wire = await stopped(at);
    await fill(at);
    for (let sips = 0; sips < 12; sips++) {
      const before = wire.received.length;
      wire.socket.resume();
      await wire.until((received) => received.length > before + 1_000_000 || received.subarray(-30).includes('}'));
      wire.socket.pause();
      await fill(at);
    }
    expect(at.endings).toEqual([]);
  });

  it('of its own answers is not read either, and closed when more than outboxBytes of them wait', async () => {
    const at = await station({ 'gateway.outboxBytes': 1024 * 1024 });
    const wire = await stopped(at);
    await fill(at);
    const connection = at.connection();
    for (let i = 0; i < 3; i++) connection.push(`{"op":"test","fill":"${'x'.repeat(100_000)}"}`);
    expect(connection.paused).toBe(true);
    for (let i = 0; i < 8; i++) connection.push(`{"op":"test","fill":"${'x'.repeat(100_000)}"}`);
    expect(connection.closing).toMatchObject({ how: 'stalled', code: 4508 });
    wire.socket.resume();
    await at.until(() => at.endings.length === 1);
    expect(wire.received.includes('"code":4508')).toBe(true);
  });

  it('is read again when the answers are', async () => {
    const at = await station({ 'gateway.outboxBytes': 1024 * 1024 });
    const wire = await stopped(at);
    await fill(at);
    const connection = at.connection();
    for (let i = 0; i < 5; i++) connection.push(`{"op":"test","fill":"${'x'.repeat(100_000)}"}`);
    wire.socket.write(frame('{"id":9,"op":"echo","params":{"text":"read at last"}}'));
    wire.socket.resume();
    await wire.until((received) => received.subarray(-200).includes('read at last'));
    expect(connection.paused).toBe(false);
  });
});

describe('a reply that never reaches the socket', () => {
  it('is told to the command that wants to know, one that was written is not', async () => {
    const at = await station();
    const wire = await stopped(at);
    const connection = at.connection();
    wire.socket.resume();
    wire.socket.write(frame('{"id":2,"op":"give","params":{"name":"written"}}'));
    await wire.until((received) => received.includes('"written"'));
    wire.socket.pause();
    await fill(at);
    wire.socket.write(frame('{"id":3,"op":"give","params":{"name":"stuck"}}\n{"id":4,"op":"held"}'));
    await at.until(() => at.released.length === 1);
    connection.terminate();
    await at.until(() => at.endings.length === 1);
    expect(at.unwritten).toEqual(['stuck']);
  });

  it('because the socket went meanwhile is told too, and replies that wait end with the socket', async () => {
    const at = await station();
    const one = await client(at);
    one.send({ id: 1, op: 'untilGone' });
    await one.call('ping');
    one.ws.terminate();
    await at.until(() => at.unwritten.length === 1);
    expect(at.unwritten).toEqual(['gone']);
    await at.until(() => at.endings.length === 1);
  });

  it('because it does not fit is told as well', async () => {
    const at = await station();
    const one = await client(at);
    const { error } = await one.call('give', { name: 'huge', bytes: 1024 * 1024 });
    expect(error.code).toBe('TOO_LARGE');
    expect(at.unwritten).toEqual(['huge']);
  });
});

describe('lanes', () => {
  it('encode the same bytes into one buffer and in parts, whatever the mix', () => {
    for (let seed = 1; seed < 200; seed++) {
      const [a, b] = [new Lanes(2000), new Lanes(2000)];
      for (let i = 0; i < seed; i++) {
        const line = JSON.stringify({ i, text: 'ü€😀x'.repeat((seed * (i + 7)) % 40) });
        if ((i * seed) % 3 === 0) for (const lanes of [a, b]) lanes.addFeed(...chunkOf(line));
        else for (const lanes of [a, b]) lanes.addControl(line);
      }
      const buffer = Buffer.alloc(a.bytesMost);
      const one = buffer.subarray(0, a.encodeInto(buffer, 0));
      expect(one.equals(Buffer.concat(b.encodeParts()))).toBe(true);
      expect([a.empty, a.controlChars, a.feedBytes]).toEqual([true, 0, 0]);
    }
  });
});
