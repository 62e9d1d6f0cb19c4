import { Counter, collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';
import type { ConnectionEvent } from '../gateway/probes.js';
import type { DaemonView, ServedView } from './daemon.js';
import { LimitMetrics } from './limit-metrics.js';
import type { LoopLag } from './loop-lag.js';
import { QueueMetrics } from './queue-metrics.js';
import type { RedisPulse } from './redis-pulse.js';
import { Tally } from './tally.js';

/**
 * What /metrics tells. Labels are bounded: ops, codes and states by this program, namespaces by a setting, queues by
 * queuesMax, limits by limitsMax; ids of tasks, sessions and agents never are labels.
 */
export class Metrics {
  readonly tally = new Tally();
  readonly #registry = new Registry();
  readonly #daemon: DaemonView;
  readonly #pulse: RedisPulse;
  readonly #queues: QueueMetrics;
  readonly #limits: LimitMetrics;
  readonly #closed: Counter;
  readonly #refused: Counter;
  readonly #faults: Counter;
  #scrape: Promise<string> | undefined;

  constructor(daemon: DaemonView, pulse: RedisPulse, lag: LoopLag, version: string) {
    this.#daemon = daemon;
    this.#pulse = pulse;
    collectDefaultMetrics({ register: this.#registry, prefix: 'signalbox_' });
    this.#closed = this.#counter('connections_closed_total', 'Connections that ended, by how.', ['how']);
    this.#refused = this.#counter('connections_refused_total', 'Upgrades refused, by HTTP status.', ['status']);
    this.#faults = this.#counter('faults_total', 'Faults of the daemon itself; its log has each of them.');
    this.#commands();
    this.#ownGauges(lag, version);
    this.#namespaceGauges();
    this.#queues = new QueueMetrics(this.#registry);
    this.#limits = new LimitMetrics(this.#registry);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  connection(event: ConnectionEvent): void {
    if (event.kind === 'closed') this.#closed.inc({ how: event.how });
    else if (event.kind === 'refused') this.#refused.inc({ status: event.status });
  }

  fault(): void {
    this.#faults.inc();
  }

  /** Whoever comes while one is being made shares it. */
  text(): Promise<string> {
    this.#scrape ??= this.#text().finally(() => {
      this.#scrape = undefined;
    });
    return this.#scrape;
  }

  async #text(): Promise<string> {
    const stored = [this.#queues, this.#limits];
    // Redis away: what the daemon knows by itself is told all the same.
    if (await this.#pulse.check()) await Promise.allSettled(stored.map((one) => one.refresh(this.#daemon)));
    else for (const one of stored) one.clear();
    return await this.#registry.metrics();
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name: `signalbox_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, read: (gauge: Gauge) => void, labelNames: string[] = []): void {
    new Gauge({
      name: `signalbox_${name}`,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset();
        read(this);
      },
    });
  }

  #commands(): void {
    const custom = (name: string, help: string, type: string, values: () => object[]): void =>
      this.#registry.registerMetric({
        name,
        get: async () => ({ name, help, type, values: values(), aggregator: 'sum' }),
      } as unknown as Metric);
    custom('signalbox_commands_total', 'Requests answered, by op and code.', 'counter', () => this.tally.requests());
    const seconds = 'signalbox_command_seconds';
    custom(seconds, 'Time from the line of a request to its answer.', 'histogram', () => this.tally.durations(seconds));
  }

  #ownGauges(lag: LoopLag, version: string): void {
    const daemon = this.#daemon;
    this.#gauge('info', 'What runs here.', (gauge) => gauge.set({ version, daemon: daemon.daemon }, 1), [
      'version',
      'daemon',
    ]);
    this.#gauge('draining', '1 while the daemon stops.', (gauge) => gauge.set(Number(daemon.draining)));
    this.#gauge('connections', 'Open connections.', (gauge) => gauge.set(daemon.gateway.connections));
    this.#gauge('event_loop_late_seconds', 'Mean lateness of the event loop, ten seconds.', (gauge) =>
      gauge.set(lag.meanMs / 1000),
    );
    this.#gauge('feed_tails', 'Connections with a feed cursor.', (gauge) => gauge.set(daemon.router.stats().tails));
    this.#gauge('feed_tails_behind', 'Cursors that read at a place of their own, behind the head.', (gauge) =>
      gauge.set(daemon.router.stats().behind),
    );
    this.#gauge('feed_groups', 'Sets of cursors with the same filter.', (gauge) =>
      gauge.set(daemon.router.stats().groups),
    );
    this.#gauge('redis_up', '1 while Redis answers.', (gauge) => gauge.set(Number(this.#pulse.rttMs !== undefined)));
    this.#gauge('redis_rtt_seconds', 'Time of the last PING.', (gauge) => {
      const { rttMs } = this.#pulse;
      if (rttMs !== undefined) gauge.set(rttMs / 1000);
    });
  }

  #namespaceGauges(): void {
    const each = (name: string, help: string, read: (served: ServedView) => number): void =>
      this.#gauge(
        name,
        help,
        (gauge) => {
          for (const served of this.#daemon.namespaces) gauge.set({ namespace: served.namespace.name }, read(served));
        },
        ['namespace'],
      );
    each('sessions', 'Sessions bound to a connection of this daemon.', ({ sessions }) => sessions.size);
    each('workers', 'Workers and waiting claims on this daemon.', ({ pool }) => pool.takers);
    each('log_offset', 'Offset up to which this daemon has read the log.', ({ log }) => log.position.offset);
    each(
      'log_reader_age_seconds',
      'Since Redis last answered the reader of the log.',
      ({ log }) => log.readerAgeMs / 1000,
    );
    each('log_reader_faults', 'Connections the reader gave up since it started.', ({ log }) => log.faults);
  }
}
