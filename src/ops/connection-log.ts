import type { ConnectionEvent } from '../gateway/probes.js';
import type { Log } from './log.js';

/** One line a connection, at its end, with what became of it; who looks for more sets the level to debug. */
export class ConnectionLog {
  readonly #log: Log;
  readonly #openedAt = new Map<number, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  tell(event: ConnectionEvent): void {
    if (event.kind === 'refused') {
      const { status, reason, address } = event;
      this.#log.warn({ status, reason, address }, 'connection refused');
    } else if (event.kind === 'opened') {
      this.#openedAt.set(event.id, performance.now());
      this.#log.debug({ connection: event.id, address: event.address }, 'connection opened');
    } else {
      const { id, address, how, code, reason, session, agent } = event;
      const forMs = Math.round(performance.now() - (this.#openedAt.get(id) ?? performance.now()));
      this.#openedAt.delete(id);
      this.#log.info({ connection: id, address, how, code, reason, session, agent, forMs }, 'connection closed');
    }
  }
}
