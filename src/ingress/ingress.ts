import type { Config } from '../config.js';
import type { Service } from '../lib/service.js';
import type { Client } from '../redis/connection.js';
import type { Namespace } from '../redis/namespace.js';
import { Appender } from './appender.js';
import { PubSubLink } from './link.js';

export interface IngressOptions {
  readonly config: Pick<Config, 'log'>;
  /** A new connection for pub/sub, not yet connected. */
  readonly open: () => Client;
  readonly namespaces: {
    /** Served by this daemon, or undefined. */
    get(name: string): Namespace | undefined;
    all(): Iterable<Namespace>;
  };
  /** Called once a name, for messages to a namespace that does not exist. */
  readonly onUnknown?: (namespace: string) => void;
  /** Redis does not let it listen. */
  readonly onRefused?: (error: Error) => void;
  /** How long a daemon that gives no sign of life stays the appender. */
  readonly leaseMs?: number;
  readonly pingMs?: number;
  /** Most bytes of messages a namespace that wait in memory. */
  readonly tapeBytes?: number;
}

const channelForm = /^signalbox:([a-z0-9-]{1,64}):/;
const unknownMax = 1000;

/** Messages that services PUBLISH become events: one link a daemon, one appender a namespace (appender.ts). */
export class Ingress implements Service {
  readonly name = 'ingress';
  readonly #options: IngressOptions;
  readonly #link: PubSubLink;
  readonly #leaseMs: number;
  readonly #appenders = new Map<string, Appender>();
  readonly #unknown = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #received = 0;
  #dropped = 0;
  #cuts = 0;

  constructor(options: IngressOptions) {
    const { open, leaseMs = 3000, pingMs = 2000 } = options;
    this.#options = options;
    this.#leaseMs = leaseMs;
    this.#link = new PubSubLink({
      open,
      pattern: 'signalbox:*',
      control: 'sb:ingress',
      pingMs,
      pongMs: pingMs,
      onMessage: (channel, payload) => this.#hear(channel, payload),
      onControl: (text) => this.#control(text),
      onUp: () => this.#each((appender) => appender.listen()),
      onCut: () => {
        this.#cuts++;
        this.#each((appender) => appender.deafen());
      },
      onRefused: (error) => options.onRefused?.(error),
    });
  }

  async start(): Promise<void> {
    if (this.#timer) return;
    this.#timer = setInterval(() => this.#tick(), this.#leaseMs / 3);
    await this.#link.start();
    this.#tick();
  }

  /** What was heard is appended, then the leases go back, so that another daemon goes on at once. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await Promise.all([...this.#appenders.values()].map((appender) => appender.stop()));
    await this.#link.stop();
    this.#appenders.clear();
  }

  stats() {
    let waiting = 0;
    let bytes = 0;
    const appending: string[] = [];
    for (const [name, appender] of this.#appenders) {
      waiting += appender.waiting;
      bytes += appender.bytes;
      if (appender.appending) appending.push(name);
    }
    const { up, refusal } = this.#link;
    return {
      up,
      refusal,
      received: this.#received,
      dropped: this.#dropped,
      cuts: this.#cuts,
      waiting,
      bytes,
      appending,
    };
  }

  #tick(): void {
    for (const namespace of this.#options.namespaces.all()) this.#appender(namespace);
    this.#each((appender) => appender.tick());
  }

  #hear(channel: string, payload: Buffer): void {
    this.#received++;
    const name = channelForm.exec(channel)?.[1];
    const namespace = name === undefined ? undefined : this.#options.namespaces.get(name);
    if (!namespace) this.#drop(name ?? '');
    else this.#appender(namespace).hear(channel, payload);
  }

  #drop(name: string): void {
    this.#dropped++;
    if (this.#unknown.has(name) || this.#unknown.size >= unknownMax) return;
    this.#unknown.add(name);
    this.#options.onUnknown?.(name);
  }

  #control(text: string): void {
    const [name = '', fence = '', mark = '', placeMark = '', count = '0'] = text.split(' ');
    const namespace = this.#options.namespaces.get(name);
    if (!namespace) return;
    if (fence === '?') this.#appender(namespace).asked();
    else this.#appender(namespace).marked(fence, mark, { mark: placeMark, count: Number(count) });
  }

  #appender(namespace: Namespace): Appender {
    const known = this.#appenders.get(namespace.name);
    if (known) return known;
    const { publishedBytes, publishWindowMs } = this.#options.config.log;
    const appender = new Appender(namespace, {
      leaseMs: this.#leaseMs,
      publishedBytes,
      publishWindowMs,
      tapeBytes: this.#options.tapeBytes ?? 4 * 1024 * 1024,
      provenAgoMs: () => this.#link.provenAgoMs,
    });
    this.#appenders.set(namespace.name, appender);
    if (this.#link.up) appender.listen();
    return appender;
  }

  #each(visit: (appender: Appender) => void): void {
    for (const appender of this.#appenders.values()) visit(appender);
  }
}
