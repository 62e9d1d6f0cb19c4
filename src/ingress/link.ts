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
  /** Redis is there and will not let it listen. Told once a reason, until it hears. */
  readonly onRefused: (error: Error) => void;
}

/** So many failures make the pause its longest. */
const longest = 6;
const connectMs = 3000;
/** So long a start waits to hear. A daemon that does not is deaf to services alone, and of use to all others. */
const startMs = 5000;
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
  #refusal: string | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  get up(): boolean {
    return this.#up;
  }

  /** Why Redis does not let it listen. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  get provenAgoMs(): number {
    return Math.ceil(performance.now() - this.#provenAt);
  }

  /** Resolves when it hears, or when it is clear that others should not wait for that. */
  start(): Promise<void> {
    this.#stop = new AbortController();
    return new Promise((resolve) => {
      const late = setTimeout(resolve, startMs);
      this.#firstUp = () => {
        clearTimeout(late);
        resolve();
      };
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
      } catch (error) {
        // Cut, silent or stopped: the same way out.
        if (isRefusal(error)) {
          this.#refused(error);
          failures = longest; // nothing that a quick try would change
        }
      } finally {
        client.disconnect();
        client.removeAllListeners('pmessageBuffer');
        client.removeAllListeners('message');
        if (this.#up) this.#options.onCut();
        this.#up = false;
      }
      await pause(Math.min(1000, 25 * 2 ** Math.min(failures, longest)) * (0.5 + Math.random() / 2), signal);
    }
  }

  #refused({ message }: Error): void {
    this.#firstUp?.();
    if (message === this.#refusal) return;
    this.#refusal = message;
    const { pattern, control, onRefused } = this.#options;
    const advice = `allow its user to: ACL SETUSER <user> +ping +subscribe +psubscribe +publish &${pattern} &${control}`;
    onRefused(new Error(`Redis does not let this daemon hear what services PUBLISH (${message}); ${advice}`));
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
      this.#refusal = undefined;
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

/** Redis' own word, and one that will not change by itself. */
const isRefusal = (error: unknown): error is Error => error instanceof Error && error.message.startsWith('NOPERM');
