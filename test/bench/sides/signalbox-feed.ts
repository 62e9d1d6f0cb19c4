import { type Signalbox as Client, connect } from '../../../src/client/index.js';
import { type Address, type FeedSide, payload, type Setup, type Stream } from '../side.js';
import { inTime } from '../stats.js';

/** Signalbox' feed: events are published by the SDK; subscribers connect to the daemon. */
class SignalboxFeed implements FeedSide {
  #url = '';
  #client!: Client;

  async open({ url }: Setup): Promise<void> {
    this.#url = url!;
    this.#client = await connect({ url: url!, agent: 'publisher' });
  }

  async address(): Promise<Address> {
    return {
      url: this.#url,
      subscribe: '{"id":1,"op":"feed.subscribe","params":{"types":["bench.>"]}}',
      session: '{"id":2,"op":"session.open","params":{"agent":"idle"}}',
    };
  }

  async publish({ events, burst, dataBytes, everyMs }: Stream): Promise<void> {
    const event = { type: 'bench.tick', data: payload(dataBytes) };
    const call = { events: Array.from({ length: burst }, () => event) };
    await inTime(events / burst, everyMs, () => this.#client.feed.publish(call));
  }

  async close(): Promise<void> {
    await this.#client?.close();
  }
}

export const side = new SignalboxFeed();
