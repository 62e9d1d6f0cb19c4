import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Address, type FeedSide, payload, type Stream } from '../side.js';
import { inTime } from '../stats.js';

/** A server that has the line in its hand and does nothing but send it to every socket, as the manual of ws shows it. */
class RawServer implements FeedSide {
  #server!: WebSocketServer;
  #sent = 0;

  async open(): Promise<void> {
    this.#server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
    await once(this.#server, 'listening');
  }

  async address(): Promise<Address> {
    return { url: `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}` };
  }

  async publish({ events, burst, dataBytes, everyMs }: Stream): Promise<void> {
    await inTime(events / burst, everyMs, async () => {
      const lines = Array.from({ length: burst }, () => Buffer.from(line(++this.#sent, dataBytes)));
      for (const socket of this.#server.clients) for (const one of lines) socket.send(one, { binary: false });
      // Those that read have taken the last burst before the next one follows.
      if (everyMs === undefined) await Promise.all([...this.#server.clients].map(taken));
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#server.clients) socket.terminate();
    this.#server.close();
  }
}

/** As a line of the feed, byte for byte but for the digits in it. */
const line = (offset: number, dataBytes: number): string =>
  `{"op":"event","offset":${offset},"event":{"id":"abcdefghijk:${offset}","source":"/agent/publisher",` +
  `"type":"bench.tick","time":"2026-01-01T00:00:00.000Z","data":${JSON.stringify(payload(dataBytes))}}}`;

async function taken(socket: WebSocket): Promise<void> {
  while (socket.bufferedAmount > 0) await new Promise(setImmediate);
}

export const side = new RawServer();
