import { inFlight } from '../stats.js';
import { Subscriber, type Tally } from '../subscriber.js';

/** Handshakes and requests at once: less than a listener's backlog. */
const width = 100;

const none = (): Tally => ({ lines: 0, messages: 0, bytes: 0 });

/** Some of the subscribers of a feed, in this process. */
export class SubscriberPool {
  readonly #reading: Subscriber[] = [];
  readonly #stopped: Subscriber[] = [];
  readonly #tally = none();
  #wanted = 0;
  #complete: { resolve(tally: Tally): void; reject(error: Error): void } | undefined;
  #broken: Error | undefined;

  async connect(url: string, count: number): Promise<void> {
    const arrived = (): void => this.#look();
    const failed = (error: Error): void => {
      this.#broken ??= error;
      this.#complete?.reject(error);
    };
    await inFlight(count, width, async () => {
      this.#reading.push(await Subscriber.open(url, this.#tally, arrived, failed));
    });
  }

  /** The same request on every connection; resolves when all are answered. */
  async ask(line: string): Promise<void> {
    await inFlight(this.#reading.length, width, (i) => this.#reading[i]!.ask(line));
  }

  /** From here on `events` are waited for at each that reads. Said before they are published. */
  async expect(events: number): Promise<void> {
    if (this.#tally.lines > 0) throw new Error(`${this.#tally.lines} events more than were published`);
    this.#wanted = events * this.#reading.length;
  }

  /** Resolves when all of them are there. */
  arrived(): Promise<Tally> {
    return new Promise((resolve, reject) => {
      this.#complete = { resolve, reject };
      if (this.#broken) reject(this.#broken);
      else this.#look();
    });
  }

  async stopReading(count: number): Promise<void> {
    for (const subscriber of this.#reading.splice(0, count)) {
      subscriber.stopReading();
      this.#stopped.push(subscriber);
    }
  }

  async close(): Promise<void> {
    for (const subscriber of [...this.#reading, ...this.#stopped]) subscriber.end();
  }

  #look(): void {
    if (!this.#complete || this.#tally.lines < this.#wanted) return;
    const tally = { ...this.#tally };
    Object.assign(this.#tally, none(), { lines: tally.lines - this.#wanted });
    this.#complete.resolve({ ...tally, lines: this.#wanted });
    this.#complete = undefined;
  }
}

export const side = new SubscriberPool();
