import { Refusal, type WireError } from '../errors.js';
import { closeCodes } from '../protocol/close-codes.js';
import { errorLine, type Frame, linesMax } from '../protocol/frame.js';
import { decode } from './gates/decode.js';
import { toWireError } from './gates/fail.js';
import type { Pipeline, PipelineCaller } from './pipeline.js';
import { Requests } from './requests.js';

/** Ops after which the connection is another's, or nobody's. */
const turns: ReadonlySet<unknown> = new Set(['session.open', 'session.close']);

/** What the inbox needs of its connection. */
export interface InboxOwner extends PipelineCaller {
  /** False once the connection closes: what is left of a message is not read. */
  readonly reading: boolean;
  close(code: number, reason: string): void;
}

/** A request that came while the session was being opened or closed. */
interface Held {
  readonly frame: Frame;
  readonly line: string;
  readonly message: number;
}

/**
 * What comes in on one connection: messages into lines, lines into requests; which of them are still in flight.
 *
 * What stands behind a `session.open` waits for its answer, in its order: an agent that sends its first requests in the
 * same breath means them for that session. They are in flight meanwhile, and bounded as such; what has no id is neither,
 * and is of a subscription that was there before. If the open is refused they run as what they are then, without a
 * session. In the same way what stands behind a `session.close` is no part of the session that it ends.
 */
export class Inbox {
  readonly #owner: InboxOwner;
  readonly #pipeline: Pipeline;
  readonly #clock: { readonly now: number };
  readonly #requests = new Requests();
  /** The id of a session.open or session.close without an answer. */
  #turning: number | undefined;
  #held: Held[] = [];

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
    if (id === this.#turning) {
      this.#turning = undefined;
      // Behind the line that answers it.
      queueMicrotask(() => this.#goOn());
    }
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
      const waits = this.#turning !== undefined || this.#held.length > 0;
      if (waits && id !== undefined) this.#held.push({ frame, line, message: this.#owner.message });
      else this.#run(frame, line);
    } catch (error) {
      if (id === undefined) this.#misuse(error);
      // Not through `answered`: a doubled id is still in flight for the request that has it.
      else this.#owner.push(errorLine(id, toWireError(error, 'gateway')));
    }
  }

  #run(frame: Frame, line: string): void {
    if (turns.has(frame.op)) this.#turning = frame.id as number;
    this.#pipeline.run(frame, line, this.#owner);
  }

  /** Runs what has waited, up to the next of those among it. */
  #goOn(): void {
    const held = this.#held;
    const current = this.#owner.message;
    let at = 0;
    while (at < held.length && this.#turning === undefined && this.#owner.reading) {
      const { frame, line, message } = held[at++]!;
      this.#owner.message = message;
      this.#run(frame, line);
    }
    this.#owner.message = current;
    this.#held = this.#owner.reading ? held.slice(at) : [];
  }

  /** A frame that cannot be answered by its id. */
  #misuse(error: unknown): void {
    const wire: WireError = toWireError(error, 'gateway');
    this.#owner.push(errorLine(undefined, wire));
    if (this.#requests.strike(this.#clock.now)) this.#owner.close(closeCodes.misuse, 'too many bad frames');
  }
}
