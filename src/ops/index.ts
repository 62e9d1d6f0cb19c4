import type { RequestListener } from 'node:http';
import {
  type CommandEvent,
  type ConnectionEvent,
  commandProbe,
  connectionProbe,
  type FaultEvent,
  faultProbe,
} from '../gateway/probes.js';
import { TokenCheck } from '../gateway/token.js';
import type { Service } from '../lib/service.js';
import { ConnectionLog } from './connection-log.js';
import type { DaemonView } from './daemon.js';
import { createHttp } from './http.js';
import type { Log } from './log.js';
import { LoopLag } from './loop-lag.js';
import { Metrics } from './metrics.js';
import { RedisPulse } from './redis-pulse.js';

/** Watches a daemon and tells about it: log lines, health, metrics. It is made before the daemon and outlives it. */
export class Ops implements Service {
  readonly name = 'ops';
  readonly #log: Log;
  readonly #version: string;
  readonly #lag = new LoopLag();
  readonly #connections: ConnectionLog;
  #pulse: RedisPulse | undefined;
  #metrics: Metrics | undefined;

  constructor(log: Log, version: string) {
    this.#log = log;
    this.#version = version;
    this.#connections = new ConnectionLog(log);
  }

  /** For AppOptions.http. The daemon is still being built when this is called. */
  readonly http = (daemon: DaemonView): RequestListener => {
    const pulse = new RedisPulse(async () => daemon.store.client.ping());
    const metrics = new Metrics(daemon, pulse, this.#lag, this.#version);
    this.#pulse = pulse;
    this.#metrics = metrics;
    return createHttp({
      daemon,
      pulse,
      lag: this.#lag,
      metrics,
      token: new TokenCheck(daemon.config.gateway.token),
      version: this.#version,
      onError: (where, error) => this.#log.error({ err: error, where }, 'a fault'),
    });
  };

  async start(): Promise<void> {
    connectionProbe.subscribe(this.#onConnection);
    commandProbe.subscribe(this.#onCommand);
    faultProbe.subscribe(this.#onFault);
    await this.#lag.start();
    await this.#pulse?.start();
  }

  async stop(): Promise<void> {
    connectionProbe.unsubscribe(this.#onConnection);
    commandProbe.unsubscribe(this.#onCommand);
    faultProbe.unsubscribe(this.#onFault);
    await this.#pulse?.stop();
    await this.#lag.stop();
  }

  readonly #onConnection = (message: unknown): void => {
    const event = message as ConnectionEvent;
    this.#connections.tell(event);
    this.#metrics?.connection(event);
  };

  readonly #onCommand = (message: unknown): void => this.#metrics?.tally.count(message as CommandEvent);

  readonly #onFault = (message: unknown): void => {
    const { ref, where, error } = message as FaultEvent;
    this.#metrics?.fault();
    this.#log.error({ ref, where, err: error }, 'a fault');
  };
}
