import type { ConnectionPort, Context } from '../context.js';
import { Refusal, type WireError } from '../errors.js';
import type { AnyCommand } from '../protocol/command.js';
import { type Frame, okLine, RevocableRaw } from '../protocol/frame.js';
import { checkAllowed, namespaceFor } from './gates/allowed.js';
import { toWireError } from './gates/fail.js';
import { keepJson, paramsOf, parse } from './gates/parse.js';
import { type Entry, entryOf } from './gates/schema.js';
import type { Identity } from './identity.js';
import { type CommandEvent, commandProbe } from './probes.js';

/** The connection as the pipeline sees it. */
export interface PipelineCaller extends ConnectionPort {
  readonly identity: Identity;
  /** Number of the inbound message whose line is started. */
  message: number;
  /** Answers a request, exactly once. */
  answer(id: number | undefined, line: string, unwritten?: () => void): void;
  refuse(id: number | undefined, error: WireError): void;
}

interface Call {
  readonly caller: PipelineCaller;
  readonly id: number | undefined;
  readonly startedAt: number;
  entry: Entry | undefined;
}

/** What a request goes through, in this order: decode (by the connection), allowed, parse, run, answer. */
export class Pipeline {
  readonly #table = new Map<string, Entry>();

  constructor(commands: ReadonlyMap<string, AnyCommand>) {
    for (const [name, command] of commands) this.#table.set(name, entryOf(command));
  }

  /** Runs one decoded line. Never throws; answers now or later. */
  run(frame: Frame, line: string, caller: PipelineCaller): void {
    const startedAt = commandProbe.hasSubscribers ? performance.now() : 0;
    const call: Call = { caller, id: frame.id as number | undefined, startedAt, entry: undefined };
    try {
      const entry = this.#find(frame.op, caller);
      call.entry = entry;
      checkAllowed(entry, caller.identity);
      const params = paramsOf(frame);
      keepJson(entry, frame, line);
      const namespace = namespaceFor(entry, params, caller.identity);
      const parsed = parse(entry, params);
      const context = caller.identity.enter(namespace, entry, parsed, caller);
      if (context instanceof Promise) this.#runLater(call, entry, parsed, context);
      else this.#start(call, entry, parsed, context);
    } catch (error) {
      this.#fail(call, error);
    }
  }

  #find(op: unknown, caller: PipelineCaller): Entry {
    if (typeof op !== 'string') throw new Refusal('BAD_REQUEST', 'expected the name of an op', { path: 'op' });
    const entry = this.#table.get(op);
    if (entry) return entry;
    throw new Refusal(caller.identity.authenticated ? 'UNKNOWN_OP' : 'UNAUTHENTICATED');
  }

  #runLater(call: Call, entry: Entry, params: Record<string, unknown>, context: Promise<Context>): void {
    const { message } = call.caller;
    context.then(
      (ready) => {
        const current = call.caller.message;
        call.caller.message = message;
        this.#start(call, entry, params, ready);
        call.caller.message = current;
      },
      (error) => this.#fail(call, error),
    );
  }

  #start(call: Call, entry: Entry, params: Record<string, unknown>, context: Context): void {
    try {
      entry.command.run(params, context).then(
        (result: unknown) => this.#succeed(call, result),
        (error: unknown) => void this.#refused(call, error, context),
      );
    } catch (error) {
      this.#fail(call, error); // Thrown before it was a promise.
    }
  }

  /**
   * A script may see the end of a session before this daemon has heard of it. The answer waits until that is known here as
   * well: who is told SESSION_LOST opens a new session on this socket at once, and must not find the old one there.
   */
  async #refused(call: Call, error: unknown, { session, sessions }: Context): Promise<void> {
    const isLost = error instanceof Refusal && error.code === 'SESSION_LOST';
    if (isLost && session && call.caller.identity.session === session) await sessions.prove(session).catch(() => {});
    this.#fail(call, error);
  }

  #succeed(call: Call, result: unknown): void {
    const { id, caller } = call;
    let line = '';
    try {
      if (id !== undefined) line = okLine(id, result);
    } catch (error) {
      this.#fail(call, error); // A result that is no JSON is a fault of the command.
      return;
    }
    caller.answer(id, line, result instanceof RevocableRaw ? result.unwritten : undefined);
    if (call.startedAt > 0) this.#probe(call, 'ok');
  }

  #fail(call: Call, error: unknown): void {
    const { entry, caller } = call;
    if (entry?.name === 'session.open') caller.identity.leave();
    const refusal = toWireError(error, entry?.name ?? 'gateway');
    caller.refuse(call.id, refusal);
    if (call.startedAt > 0) this.#probe(call, refusal.code);
  }

  #probe(call: Call, code: string): void {
    const micros = Math.round((performance.now() - call.startedAt) * 1000);
    commandProbe.publish({ name: call.entry?.name ?? '', code, micros } satisfies CommandEvent);
  }
}
