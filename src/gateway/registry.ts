import { closeCodes } from '../protocol/close-codes.js';
import type { Connection } from './connection.js';

const closeReplaced = (connection: Connection): void =>
  connection.close(closeCodes.replaced, 'replaced by a newer connection of the session', 'replaced');

/** The connections of this daemon, by id and by the session they hold. A session has one connection at most. */
export class Registry {
  readonly #byId = new Map<number, Connection>();
  readonly #bySession = new Map<string, Connection>();
  #nextId = 1;
  #emptied: (() => void) | undefined;

  get size(): number {
    return this.#byId.size;
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.#byId.values();
  }

  nextId(): number {
    return this.#nextId++;
  }

  byId(id: number): Connection | undefined {
    return this.#byId.get(id);
  }

  bySession(session: string): Connection | undefined {
    return this.#bySession.get(session);
  }

  add(connection: Connection): void {
    this.#byId.set(connection.id, connection);
  }

  /** `session` was opened or resumed on `connection`: an older connection of it ends here and now. */
  attach(session: string, connection: Connection): void {
    const older = this.#bySession.get(session);
    this.#bySession.set(session, connection);
    if (older && older !== connection) closeReplaced(older);
  }

  /** Forgets the session unless a newer connection has it by now. */
  detach(session: string, connection: Connection): void {
    if (this.#bySession.get(session) === connection) this.#bySession.delete(session);
  }

  remove(connection: Connection): void {
    this.#byId.delete(connection.id);
    if (this.#byId.size === 0) this.#emptied?.();
  }

  /** Another daemon has the session under a higher binding: our connection of it is closed (4409). */
  replace(session: { readonly id: string; readonly binding: number }): void {
    const connection = this.#bySession.get(session.id);
    if (connection?.session && connection.session.binding < session.binding) closeReplaced(connection);
  }

  /** The session has ended under its open socket: the client is told and keeps the socket. */
  lost(session: string, reason: string): boolean {
    const connection = this.#bySession.get(session);
    connection?.lose(reason);
    return connection !== undefined;
  }

  /** Writes a line to the socket the session has here; false if it has none. */
  push(session: string, line: string): boolean {
    const connection = this.#bySession.get(session);
    connection?.push(line);
    return connection !== undefined;
  }

  /** Resolves when no connection is left. */
  empty(): Promise<void> {
    if (this.#byId.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#emptied;
      this.#emptied = () => {
        before?.();
        resolve();
      };
    });
  }
}
