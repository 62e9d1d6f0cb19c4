import type { Config } from '../config.js';
import type { ConnectionPort, Context, SessionRef } from '../context.js';
import type { Caller } from './gates/allowed.js';
import type { Entry } from './gates/schema.js';
import type { GatewayHooks, NamespaceParts } from './hooks.js';

/**
 * Who a connection is: credentials, session, namespace; and the context its commands get, built once and kept until
 * one of them changes.
 *
 *     none --attach--> live --lose--> lost --attach--> live --detach--> none
 */
export class Identity implements Caller {
  authenticated: boolean;
  #state: Caller['state'] = 'none';
  #session: SessionRef | undefined;
  #name: string | undefined;
  #parts: NamespaceParts | undefined;
  /** Only a session.open under way has named the namespace; if it fails, another may be named. */
  #tentative = false;
  #context: Context | undefined;
  readonly #config: Config;
  readonly #hooks: Pick<GatewayHooks, 'namespace'>;

  constructor(authenticated: boolean, config: Config, hooks: Pick<GatewayHooks, 'namespace'>) {
    this.authenticated = authenticated;
    this.#config = config;
    this.#hooks = hooks;
  }

  get state(): Caller['state'] {
    return this.#state;
  }

  get heldNamespace(): string | undefined {
    return this.#name;
  }

  /** The session while it lives. */
  get session(): SessionRef | undefined {
    return this.#state === 'live' ? this.#session : undefined;
  }

  attach(session: SessionRef): void {
    this.#become('live', session);
    this.#tentative = false;
  }

  detach(): void {
    this.#become('none', undefined);
  }

  /** Commands that answer for themselves by a fence still see the lost session in their context. */
  lose(): void {
    this.#become('lost', this.#session);
  }

  #become(state: Caller['state'], session: SessionRef | undefined): void {
    this.#state = state;
    this.#session = session;
    this.#context = undefined;
  }

  /** The context for a call in namespace `name`, which holds from now on unless nothing hangs on it (ping). */
  enter(
    name: string,
    entry: Entry,
    params: Record<string, unknown>,
    connection: ConnectionPort,
  ): Context | Promise<Context> {
    const begins = entry.name === 'session.open';
    const opens = !this.#parts && (entry.command.opens?.(params, { connection, config: this.#config }) ?? false);
    if (this.#name === undefined) {
      if (entry.command.allowed === 'anyone' && !begins) {
        return this.#hooks.namespace(name, false).then((parts) => this.#build(parts, connection));
      }
      this.#name = name;
      this.#tentative = begins;
    } else if (!begins && entry.command.allowed !== 'anyone') this.#tentative = false;
    if (this.#context) return this.#context;
    if (!this.#parts) return this.#resolve(name, connection, opens);
    this.#context = this.#build(this.#parts, connection);
    return this.#context;
  }

  leave(): void {
    if (!this.#tentative) return;
    this.#name = undefined;
    this.#parts = undefined;
    this.#context = undefined;
    this.#tentative = false;
  }

  async #resolve(name: string, connection: ConnectionPort, opens: boolean): Promise<Context> {
    try {
      const parts = await this.#hooks.namespace(name, opens);
      if (this.#name === name && parts.served) this.#parts = parts;
      return this.#build(parts, connection);
    } catch (error) {
      // A namespace that could not be had holds nobody.
      if (this.#name === name && !this.#parts) this.#name = undefined;
      throw error;
    }
  }

  #build(parts: NamespaceParts, connection: ConnectionPort): Context {
    // Commands that may run without a session look at connection.session instead.
    return { ...parts, config: this.#config, connection, session: this.#session as SessionRef };
  }
}
