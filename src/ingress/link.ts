import type { Client } from '../redis/connection.js';
import { deadline, pause } from '../redis/deadline.js';

export interface LinkOptions {
  /** A new connection for pub/sub, not yet connected. */
  readonly open: () => Client;
  readonly pattern: string;
  readonly control: string;
  readonly pingMs: number;
  readonly pongMs: number;
  readonly onMessage: (channel: string, payload: Buffer) => void;
  readonly onControl: (text: string) => void;
  /** Everything that is said from now on is heard. */
  readonly onUp: () => void;
  /** Something may have been said that was not heard. */
  readonly onCut: () => void;
}

const connectMs = 3000;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * The pub/sub connection. Redis forgets a subscriber that is cut, and a subscriber never hears that its link is dead:
 * so it is asked every few seconds (PING), and whenever it does not answer, or closes, the instance is thrown away, the
 * cut is told, and a new one subscribes.
 */
export class PubSubLink {
  readonly #options: LinkOptions;
  #stop = new AbortController();
  #running: Promise<void> | undefined;
  #heardAt = 0;
  /** Sending time of the last PING that was answered: everything said before was heard. */
  #provenAt = 0;
  #up = false;
  #firstUp: (() => void) | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  get up(): boolean {
    return this.#up;
  }

  get provenAgoMs(): number {
    return Math.ceil(performance.now() - this.#provenAt);
  }

  /** Resolves when it hears. */
  start(): Promise<void> {
    this.#stop = new AbortController();
    return new Promise((resolve) => {
      this.#firstUp = resolve;
      this.#running = this.#run();
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#firstUp?.();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; failures++) {
      const client = this.#options.open();
      client.on('error', () => {}); // heard through what fails
      try {
        await this.#subscribe(client);
        failures = 0;
        await this.#listen(client);
      } catch {
        // Cut, silent or stopped: the same way out.
      } finally {
        client.disconnect();
        client.removeAllListeners('pmessageBuffer');
        client.removeAllListeners('message');
        if (this.#up) this.#options.onCut();
        this.#up = false;
      }
      await pause(Math.min(1000, 25 * 2 ** failures) * (0.5 + Math.random() / 2), signal);
    }
  }

  async #subscribe(client: Client): Promise<void> {
    const { pattern, control, onMessage, onControl, onUp } = this.#options;
    const { signal } = this.#stop;
    await deadline(client.connect(), connectMs, signal);
    const asked = performance.now();
    client.on('pmessageBuffer', (_: Buffer, channel: Buffer, payload: Buffer) => {
      this.#heardAt = performance.now();
      if (this.#up) onMessage(channel.toString(), payload);
    });
    client.on('message', (_: string, text: string) => {
      this.#heardAt = performance.now();
      if (this.#up) onControl(text);
    });
    // The last answer counts: from there on both are heard.
    const both = Promise.all([client.subscribe(control), client.psubscribe(pattern)]).then(() => {
      this.#provenAt = asked;
      this.#up = true;
      onUp();
    });
    await deadline(both, connectMs, signal);
    this.#firstUp?.();
  }

  async #listen(client: Client): Promise<never> {
    const { signal } = this.#stop;
    const closed = new Promise<never>((_, reject) => {
      client.once('close', () => reject(new Error('closed')));
    });
    closed.catch(() => {});
    for (;;) {
      await Promise.race([this.#pong(client, signal), closed]);
      await Promise.race([pause(this.#options.pingMs, signal), closed]);
      if (signal.aborted) throw new Error('stopped');
    }
  }

  /** A flood or a freeze of our own delays the answer; while anything comes in, the link is not dead. */
  async #pong(client: Client, signal: AbortSignal): Promise<void> {
    const sent = performance.now();
    let answered = false;
    const pong = (client.ping() as Promise<string>).then(() => {
      answered = true;
    });
    for (let heard = sent; ; heard = this.#heardAt) {
      try {
        await deadline(pong, this.#options.pongMs, signal);
        break;
      } catch (error) {
        // After a freeze timers run before the socket is read: it gets its turn first.
        await turn();
        await turn();
        if (answered) break;
        if (signal.aborted || this.#heardAt <= heard) throw error;
      }
    }
    this.#provenAt = sent;
  }
}
