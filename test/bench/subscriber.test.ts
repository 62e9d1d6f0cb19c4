import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { until } from '../support/until.js';
import { Subscriber, type Tally } from './subscriber.js';

let server: WebSocketServer;
let tally: Tally;
let failures: Error[];
let subscriber: Subscriber;
let peer: WebSocket;

beforeEach(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  tally = { lines: 0, messages: 0, bytes: 0 };
  failures = [];
  const connected = once(server, 'connection');
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  subscriber = await Subscriber.open(
    url,
    tally,
    () => {},
    (error) => failures.push(error),
  );
  [peer] = (await connected) as [WebSocket];
});
afterEach(() => {
  subscriber.end();
  for (const client of server.clients) client.terminate();
  server.close();
});

const event = (bytes: number): string => `{"op":"event","text":"${'é'.repeat(bytes / 2)}"}`;

test('events are counted in frames of all lengths, many in a frame, and cut anywhere', async () => {
  const sizes = [2, 90, 126, 400, 65_000, 70_000, 300_000];
  for (const size of sizes) peer.send(event(size));
  peer.send(`${event(10)}\n{"op":"position","position":"e:1"}\n${event(10)}`);
  peer.send('{"op":"heartbeat"}');
  await until(() => tally.lines >= sizes.length + 2);
  const around = event(0).length;
  expect(tally).toEqual({
    lines: sizes.length + 2,
    messages: sizes.length + 1,
    bytes: sizes.reduce((sum, size) => sum + size + around, 2 * (10 + around)),
  });
  expect(failures).toEqual([]);
});

test('a request is over with its reply; a refusal is an error', async () => {
  peer.on('message', (data) =>
    peer.send(String(data).includes('"bad"') ? '{"id":1,"error":{"code":"INVALID"}}' : '{"id":1,"ok":{}}'),
  );
  await subscriber.ask('{"id":1,"op":"good"}');
  await expect(subscriber.ask('{"id":1,"op":"bad"}')).rejects.toThrow('INVALID');
});

test('pings are answered with what they carry', async () => {
  const pong = once(peer, 'pong');
  peer.ping('17');
  expect(String((await pong)[0])).toBe('17');
});

test('a connection that the server ends is told, one that ended itself is not', async () => {
  peer.close(4508, 'stalled');
  await until(() => failures.length > 0);
  expect(failures[0]!.message).toContain('stalled');
  failures.length = 0;
  subscriber.end();
  await once(peer, 'close').catch(() => {});
  expect(failures).toEqual([]);
});
