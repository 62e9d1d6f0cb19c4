import { describe, expect, it } from 'vitest';
import { Receipts } from '../../src/gateway/receipts.js';
import type { Fate } from '../../src/queue/port.js';
import { client, frame, type Station, station, useStations, Wire } from './support.js';

useStations();

/** A socket that answers pings only when it is told to. */
async function mute(at: Station): Promise<Wire> {
  const wire = new Wire(at.port);
  await wire.upgrade();
  await wire.until((received) => received.includes('"hello"'));
  return wire;
}

const pong = (number: number | string): Buffer => frame(`${number}`, { first: 0x8a });

describe('a task line', () => {
  it('goes out behind a numbered ping in the same write and is received with its pong', async () => {
    const at = await station();
    const wire = await mute(at);
    const before = wire.received.length;
    at.deliver(at.connection(), '{"op":"tasks","tasks":[]}');
    await wire.until((received) => received.includes('"tasks"'));
    const sent = wire.received.subarray(before);
    expect([sent[0], sent[1], sent.toString('latin1', 2, 3)]).toEqual([0x89, 1, '1']);
    expect(sent[3]).toBe(0x81);
    wire.socket.write(pong(1));
    await at.until(() => at.fates.length === 1);
    expect(at.fates).toEqual(['received']);
  });

  it('is received by any real client, without its doing', async () => {
    const at = await station();
    await client(at);
    for (let i = 0; i < 100; i++) at.deliver(at.connection(), `{"op":"tasks","i":${i}}`);
    await at.until(() => at.fates.length === 100);
    expect(new Set(at.fates)).toEqual(new Set(['received']));
  });

  it('is received with the pong to a later number, and not with one to a number never sent', async () => {
    const at = await station();
    const wire = await mute(at);
    at.deliver(at.connection(), '{"op":"tasks","n":1}');
    await wire.until((received) => received.includes('"n":1'));
    at.deliver(at.connection(), '{"op":"tasks","n":2}');
    await wire.until((received) => received.includes('"n":2'));
    const heard = at.heard;
    for (const wrong of ['3', '99', 'x', '', '1e0', '01', '-1', '0', ' 2']) wire.socket.write(pong(wrong));
    await at.until(() => at.heard === heard + 9);
    expect(at.fates).toEqual([]);
    wire.socket.write(pong(2));
    await at.until(() => at.fates.length === 2);
    expect(at.fates).toEqual(['received', 'received']);
  });

  it('is silent when the socket is open and no pong comes within receiptMs, and the next pong is heard of', async () => {
    const at = await station({ 'session.receiptMs': 100 });
    const wire = await mute(at);
    const connection = at.connection();
    at.deliver(connection, '{"op":"tasks"}');
    await at.until(() => at.fates.length === 1);
    expect(at.fates).toEqual(['silent']);
    expect(at.endings).toEqual([]);
    const ponged = new Promise<void>((resolve) => connection.onPong(resolve));
    wire.socket.write(pong(1));
    await ponged;
    expect(at.fates).toEqual(['silent']);
  });

  it('is closed when the socket goes after the write', async () => {
    const at = await station();
    const wire = await mute(at);
    at.deliver(at.connection(), '{"op":"tasks"}');
    await wire.until((received) => received.includes('"tasks"'));
    wire.socket.destroy();
    await at.until(() => at.endings.length === 1);
    expect(at.fates).toEqual(['closed']);
    expect(at.endings[0]!.how).toBe('broken');
  });

  it('is unwritten when the socket was gone, or never took it', async () => {
    const at = await station();
    const wire = await mute(at);
    const connection = at.connection();
    connection.close(1012, 'test', 'drained');
    at.deliver(connection, '{"op":"tasks"}');
    expect(at.fates).toEqual(['unwritten']);
    await wire.ended;
  });

  it('that waits behind a reader that stopped is unwritten, one that was in the kernel before is closed', async () => {
    const at = await station();
    const wire = await mute(at);
    const connection = at.connection();
    wire.socket.pause();
    at.deliver(connection, '{"op":"tasks"}');
    await new Promise((resolve) => setImmediate(resolve));
    while (connection.writable && !at.fates.length) {
      for (let i = 0; i < 8; i++) connection.push(`{"fill":"${'x'.repeat(60_000)}"}`);
      await new Promise((resolve) => setImmediate(resolve));
      if (connection.paused) break;
    }
    at.deliver(connection, '{"op":"tasks"}');
    wire.socket.destroy();
    connection.terminate();
    await at.until(() => at.endings.length === 1);
    expect(at.fates).toEqual(['unwritten', 'closed']);
  });

  it('not yet received when we drain is handed back as silent', async () => {
    const at = await station();
    const wire = await mute(at);
    at.deliver(at.connection(), '{"op":"tasks"}');
    await wire.until((received) => received.includes('"tasks"'));
    await Promise.all([at.gateway.drain(10), wire.ended.then(() => undefined), at.until(() => at.fates.length === 1)]);
    expect(at.fates).toEqual(['silent']);
    expect(at.endings[0]!.how).toBe('drained');
  });
});

describe('receipts', () => {
  it('tell every fate exactly once, in the order of the writes, also when a fate writes again', () => {
    const told: string[] = [];
    const receipts = new Receipts(100);
    const tell = (name: string) => (fate: Fate) => told.push(`${name} ${fate}`);
    receipts.wrote(1, [tell('a'), tell('b')], 0);
    const again = (fate: Fate): void => {
      tell('c')(fate);
      receipts.wrote(9, [tell('d')], 50);
    };
    receipts.wrote(2, [again], 10);
    receipts.wrote(3, [tell('e')], 20);
    receipts.ponged(2);
    receipts.ponged(1);
    expect(receipts.expire(119)).toBe(120);
    expect(receipts.expire(120)).toBe(150);
    receipts.end('closed');
    receipts.end('closed');
    expect(told).toEqual(['a received', 'b received', 'c received', 'e silent', 'd closed']);
    expect(receipts.expire(1000)).toBe(Number.POSITIVE_INFINITY);
  });
});
