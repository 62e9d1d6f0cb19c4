import { ReplyError } from 'ioredis';
import { isErrorCode, Refusal } from '../errors.js';
import { refusalOf } from '../protocol/batch.js';
import type { ScriptRunner } from './connection.js';
import { metaKey, neverKey, prefix } from './keys.js';
import type { Script } from './script.js';

export type Arg = string | number | Buffer;

/** What every namespace is told by the daemon that serves it. */
export interface NamespaceOptions {
  readonly daemon: string;
  readonly eventsMax: number;
  /** Time to live of a session that asks for none: the least grace after an epoch that was not a clean stop. */
  readonly ttlMs?: number;
}

/**
 * The Redis side of one namespace: runs scripts on it and remembers the highest fence and the last position that this
 * daemon has seen, which scripts take as their floor (redis/lua/turn.lua).
 */
export class Namespace {
  readonly name: string;
  readonly prefix: string;
  readonly daemon: string;
  readonly #runner: ScriptRunner;
  readonly #eventsMax: number;
  readonly #ttlMs: number;
  readonly #keys: readonly [string, string];
  /** The longest time to live that a session may still rely on, as the daemon knows without Redis (lease/longest-ttl.ts). */
  longestTtlMs = 0;
  #fence = '0';
  #position = '';

  constructor(name: string, runner: ScriptRunner, options: NamespaceOptions) {
    this.name = name;
    this.prefix = prefix(name);
    this.daemon = options.daemon;
    this.#runner = runner;
    this.#eventsMax = options.eventsMax;
    this.#ttlMs = options.ttlMs ?? 15_000;
    this.#keys = [metaKey(name), neverKey(name)];
  }

  /** The head of the log as of the last reply, `epoch:offset`; empty before the first. */
  get seenPosition(): string {
    return this.#position;
  }

  get seenFence(): number {
    return Number(this.#fence);
  }

  /** Runs a script that opens a turn; answers what it gave to `turn.close`. */
  async call<Reply>(script: Script, args: readonly Arg[] = []): Promise<Reply> {
    const reply = (await this.#run(script, args)) as [string, string, Reply];
    this.#saw(reply[0], reply[1]);
    return reply[2];
  }

  /** Runs a script that only reads: it has no turn and answers as it likes. */
  async read<Reply>(script: Script, args: readonly Arg[] = []): Promise<Reply> {
    return (await this.#run(script, args)) as Reply;
  }

  async #run(script: Script, args: readonly Arg[]): Promise<unknown> {
    try {
      return await this.#runner.run(script, this.#keys, [
        this.daemon,
        this.#fence,
        this.#position,
        this.#eventsMax,
        Math.max(this.#ttlMs, this.longestTtlMs),
        ...args,
      ]);
    } catch (error) {
      throw toRefusal(error, script.name);
    }
  }

  #saw(fence: string, position: string): void {
    // Same number of digits until the year 2286: compared as numbers all the same.
    if (Number(fence) > Number(this.#fence)) this.#fence = fence;
    // Answers may overtake each other (a script that had to be sent whole): within an epoch the head only rises.
    const [epoch, offset] = position.split(':');
    const [seenEpoch, seenOffset] = this.#position.split(':');
    if (epoch !== seenEpoch || Number(offset) > Number(seenOffset)) this.#position = position;
  }
}

const busy = new Set([
  'BUSY',
  'LOADING',
  'READONLY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'OOM',
  'NOREPLICAS',
  'UNBLOCKED',
]);

/** Of the driver: the command never left, for there was no link to send it on. */
const unsent = /^connect |Stream isn't writeable|ECONNREFUSED|ENOENT|Connection is not/i;
/**
 * Of the driver: what was on its way when the link broke ends with `max retries` (there are none), and with `Connection
 * is closed` when we closed it. The latter is also said of what is asked behind that: nobody can tell, so it counts.
 */
const cut = /max retries|ECONN|EPIPE|ETIMEDOUT|closed/i;

/** A script's `refuse(CODE, {json})` becomes a Refusal; what Redis says of its own state becomes UNAVAILABLE. */
export function toRefusal(error: unknown, what: string): Error {
  if (error instanceof Refusal || !(error instanceof Error)) return error as Error;
  const [code = '', ...rest] = error.message.split(' ');
  if (error instanceof ReplyError || error.name === 'ReplyError') {
    const tail = rest.join(' ');
    if (isErrorCode(code)) return refusalOf(code, tail);
    const oom = error.message.includes("command not allowed when used memory > 'maxmemory'") || code === '-OOM';
    const details = { redis: oom ? 'OOM' : code };
    if (busy.has(code) || oom)
      return new Refusal('UNAVAILABLE', `Redis answered ${code} to ${what}`, { afterMs: 500, details });
    return error;
  }
  if (/timed out/i.test(error.message))
    return new Refusal('TIMEOUT', `Redis did not answer ${what} in time; it may have happened`);
  if (unsent.test(error.message)) return new Refusal('UNAVAILABLE', `Redis is away (${what})`, { afterMs: 500 });
  if (!cut.test(error.message)) return error;
  const message = `the link to Redis broke before it answered ${what}; it may have happened`;
  return new Refusal('TIMEOUT', message, { afterMs: 500 });
}
