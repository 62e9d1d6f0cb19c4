import type { Config } from '../config.js';
import { Refusal } from '../errors.js';
import type { FeedSink } from '../feed/sink.js';
import type { Service } from '../lib/service.js';
import { linesMax } from '../protocol/frame.js';
import type { EventLog } from '../redis/event-log.js';
import { Fanout } from './fanout.js';
import { reportFault } from './probes.js';
import type { FeedTail } from './sinks.js';
import { Tail } from './tail.js';

export interface RouterOptions {
  readonly config: Pick<Config, 'gateway' | 'log'>;
  /** The running reader of a namespace, if this daemon serves it. */
  readonly log: (namespace: string) => EventLog | undefined;
}

const tickMs = 1000;

/** Where the log becomes lines: one Fanout a namespace, one Tail with its cursor a connection. */
export class Router implements Service {
  readonly name = 'router';
  readonly #options: RouterOptions;
  readonly #fanouts = new Map<string, Fanout>();
  readonly #positionEvery: number;
  readonly #quietTicks: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RouterOptions) {
    this.#options = options;
    const { gateway, log } = options.config;
    // A position must be told long before the log has moved past it.
    this.#positionEvery = Math.max(1, Math.min(gateway.positionEvery, Math.floor(log.eventsMax / 4)));
    this.#quietTicks = Math.ceil((2 * gateway.heartbeatMs) / tickMs);
  }

  async start(): Promise<void> {
    this.#timer ??= setInterval(() => this.#tick(), tickMs);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const fanout of this.#fanouts.values()) {
      for (const cursor of [...fanout.cursors]) cursor.end();
      fanout.close();
    }
    this.#fanouts.clear();
  }

  /** The tail of a new connection. */
  open(sink: FeedSink): FeedTail {
    return new Tail(sink, (namespace) => this.#fanout(namespace));
  }

  /** For metrics and leak tests. */
  stats(): { tails: number; groups: number; behind: number; reading: number } {
    const sums = { tails: 0, groups: 0, behind: 0, reading: 0 };
    for (const fanout of this.#fanouts.values()) {
      sums.tails += fanout.cursors.size;
      sums.groups += fanout.groups;
      sums.reading += fanout.catchUp.reading;
      for (const cursor of fanout.cursors) if (!cursor.live) sums.behind++;
    }
    return sums;
  }

  #fanout(namespace: string): Fanout {
    const log = this.#options.log(namespace);
    if (!log) throw new Refusal('UNAVAILABLE', `the log of ${namespace} is not read yet`, { afterMs: 500 });
    const known = this.#fanouts.get(namespace);
    if (known) return known;
    const bounds = { lines: linesMax, lineBytes: this.#options.config.gateway.lineBytes };
    const fanout = new Fanout(log, bounds, (error) => {
      // A Redis that is away is heard of elsewhere; the tails ask again.
      if (!(error instanceof Refusal)) reportFault(`feed of ${namespace}`, error);
    });
    this.#fanouts.set(namespace, fanout);
    return fanout;
  }

  #tick(): void {
    for (const { cursors } of this.#fanouts.values()) {
      for (const cursor of cursors) cursor.tick(this.#positionEvery, this.#quietTicks);
    }
  }
}
