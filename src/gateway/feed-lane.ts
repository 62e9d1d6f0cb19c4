import type { FeedSink } from '../feed/sink.js';
import type { Outbox } from './outbox.js';

/** The feed lane of one connection, as its tail sees it. */
export class FeedLane implements FeedSink {
  readonly #outbox: Outbox;
  readonly #connection: { readonly message: number };

  constructor(outbox: Outbox, connection: { readonly message: number }) {
    this.#outbox = outbox;
    this.#connection = connection;
  }

  get message(): number {
    return this.#connection.message;
  }

  room(): number {
    return this.#outbox.room();
  }

  write(chunk: Buffer, lines: number): void {
    this.#outbox.chunk(chunk, lines);
  }

  push(line: string): void {
    this.#outbox.chunk(Buffer.from(line), 1);
  }

  onDrain(wake: () => void): void {
    this.#outbox.onDrain(wake);
  }

  seal(): void {
    this.#outbox.seal();
  }
}
