import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { type Address, type FeedSide, payload, type Stream } from '../side.js';
import { inTime } from '../stats.js';

/**
 * A server that has the lines in its hand and does nothing but send them to every socket, as the manual of ws shows it;
 * those of a burst in one message, which is the best it can do.
 */
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
      const lines = Array.from({ length: burst }, () => line(++this.#sent, dataBytes));
      const message = Buffer.from(lines.join('\n'));
      for (const socket of this.#server.clients) socket.send(message, { binary: false });
      // Those that read have taken the last burst before the next one follows.
      if (everyMs === undefined) await this.#taken();
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#server.clients) socket.terminate();
    this.#server.close();
  }

  async #taken(): Promise<void> {
    for (const socket of this.#server.clients) while (socket.bufferedAmount > 0) await new Promise(setImmediate);
  }
}

/** As a line of the feed, byte for byte but for the digits in it. */
const line = (offset: number, dataBytes: number): string =>
  `{"op":"event","offset":${offset},"event":{"id":"abcdefghijk:${offset}","source":"/agent/publisher",` +
  `"type":"bench.tick","time":"2026-01-01T00:00:00.000Z","data":${JSON.stringify(payload(dataBytes))}}}`;

export const side = new RawServer();
