import { Refusal, type WireError } from '../errors.js';
import { closeCodes } from '../protocol/close-codes.js';
import { errorLine, linesMax } from '../protocol/frame.js';
import { decode } from './gates/decode.js';
import { toWireError } from './gates/fail.js';
import type { Pipeline, PipelineCaller } from './pipeline.js';
import { Requests } from './requests.js';

/** What the inbox needs of its connection. */
export interface InboxOwner extends PipelineCaller {
  /** False once the connection closes: what is left of a message is not read. */
  readonly reading: boolean;
  close(code: number, reason: string): void;
}

/** What comes in on one connection: messages into lines, lines into requests; which of them are still in flight. */
export class Inbox {
  readonly #owner: InboxOwner;
  readonly #pipeline: Pipeline;
  readonly #clock: { readonly now: number };
  readonly #requests = new Requests();

  constructor(owner: InboxOwner, pipeline: Pipeline, clock: { readonly now: number }) {
    this.#owner = owner;
    this.#pipeline = pipeline;
    this.#clock = clock;
  }

  /** True when what is in flight should be answered before more is read. */
  get full(): boolean {
    return this.#requests.full;
  }

  /** True once for every request that was begun. */
  answered(id: number): boolean {
    return this.#requests.end(id);
  }

  read(data: Buffer, binary: boolean): void {
    if (binary) {
      this.#misuse(new Refusal('BAD_FRAME', 'binary messages are not spoken here'));
      return;
    }
    const text = data.toString();
    if (text.includes('\n')) this.#readLines(text.endsWith('\n') ? text.slice(0, -1) : text);
    else this.#readLine(text);
  }

  #readLines(text: string): void {
    const lines = text.split('\n', linesMax + 1);
    if (lines.length > linesMax) {
      this.#misuse(new Refusal('BAD_FRAME', `a message has at most ${linesMax} lines`));
      return;
    }
    for (const line of lines) {
      if (!this.#owner.reading) return;
      this.#readLine(line);
    }
  }

  #readLine(line: string): void {
    let id: number | undefined;
    try {
      const frame = decode(line);
      id = frame.id as number | undefined;
      if (id !== undefined) this.#requests.begin(id, line.length);
      this.#pipeline.run(frame, line, this.#owner);
    } catch (error) {
      if (id === undefined) this.#misuse(error);
      // Not through `answered`: a doubled id is still in flight for the request that has it.
      else this.#owner.push(errorLine(id, toWireError(error, 'gateway')));
    }
  }

  /** A frame that cannot be answered by its id. */
  #misuse(error: unknown): void {
    const wire: WireError = toWireError(error, 'gateway');
    this.#owner.push(errorLine(undefined, wire));
    if (this.#requests.strike(this.#clock.now)) this.#owner.close(closeCodes.misuse, 'too many bad frames');
  }
}
