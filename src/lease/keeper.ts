import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import type { Service } from '../lib/service.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';

const renewScript = lua(import.meta.url, './renew.lua');

interface Row {
  readonly session: string;
  readonly binding: number;
  /** performance.now() of the frame that counts. */
  readonly heardAt: number;
}

interface Kept {
  readonly ref: SessionRef;
  heardAt: number;
  renewedAt: number;
  sending: boolean;
}

/** What the keeper found out about a session that is bound here. */
export interface KeeperHooks {
  /** The session has ended although its socket is open. */
  lost(session: string): void;
  /** Another socket has the session under a newer binding. */
  replaced(session: string): void;
}

export type Renewed = { readonly at: number; readonly state: 'renewed' | 'gone' | 'replaced' };

/**
 * The sessions of one namespace that are bound to sockets of this daemon. Inbound frames only note the time; renewals go
 * to Redis in batches, once a sixth of the ttl for a session that was heard, and each counts from the frame and not
 * from the writing: what the client was promised is never given away earlier.
 */
export class SessionKeeper implements Service {
  readonly name: string;
  readonly #namespace: Namespace;
  readonly #hooks: KeeperHooks;
  readonly #kept = new Map<string, Kept>();
  readonly #renewals: Joiner<Row, Renewed>;
  #timer: NodeJS.Timeout | undefined;
  #tickMs = 1000;

  constructor(namespace: Namespace, hooks: KeeperHooks) {
    this.name = `sessions ${namespace.name}`;
    this.#namespace = namespace;
    this.#hooks = hooks;
    this.#renewals = new Joiner((rows) => this.#renew(rows), {
      itemsMax: 200,
      callsMax: 2,
      waitingMax: 20_000,
      overflow: () => new Refusal('UNAVAILABLE', 'too many renewals wait for Redis', { afterMs: 200 }),
    });
  }

  get size(): number {
    return this.#kept.size;
  }

  async start(): Promise<void> {
    this.#arm();
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  attach(ref: SessionRef): void {
    const now = performance.now();
    this.#kept.set(ref.id, { ref, heardAt: now, renewedAt: now, sending: false });
    // The clock turns fast enough for the shortest session here, and no faster.
    const tickMs = Math.max(10, Math.min(1000, ref.ttlMs / 12));
    if (tickMs < this.#tickMs) {
      this.#tickMs = tickMs;
      this.#arm();
    }
  }

  detach(ref: SessionRef): void {
    if (this.#kept.get(ref.id)?.ref.binding === ref.binding) this.#kept.delete(ref.id);
    if (this.#kept.size === 0) this.#tickMs = 1000;
  }

  /** An inbound frame of the session was counted. Called for every frame. */
  heard(session: string): void {
    const kept = this.#kept.get(session);
    if (kept) kept.heardAt = performance.now();
  }

  /** Renews now and answers when it is in Redis: the proof that a client may reckon with. */
  async prove(ref: SessionRef): Promise<Renewed> {
    const [renewed] = await this.#renewals.add([{ session: ref.id, binding: ref.binding, heardAt: performance.now() }]);
    return renewed!;
  }

  #arm(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#tick();
      this.#arm();
    }, this.#tickMs);
    this.#timer.unref();
  }

  #tick(): void {
    const now = performance.now();
    for (const kept of this.#kept.values()) {
      const due = kept.heardAt > kept.renewedAt && now - kept.renewedAt >= kept.ref.ttlMs / 6;
      if (due && !kept.sending) this.#send(kept);
    }
  }

  #send(kept: Kept): void {
    kept.sending = true;
    const { heardAt } = kept;
    this.#renewals.add([{ session: kept.ref.id, binding: kept.ref.binding, heardAt }]).then(
      ([renewed]) => {
        kept.sending = false;
        kept.renewedAt = Math.max(kept.renewedAt, heardAt);
        if (this.#kept.get(kept.ref.id) !== kept) return;
        if (renewed!.state === 'gone') this.#hooks.lost(kept.ref.id);
        if (renewed!.state === 'replaced') this.#hooks.replaced(kept.ref.id);
      },
      // Redis is away: the next tick tries again, and the lease clock stands still for as long.
      () => {
        kept.sending = false;
      },
    );
  }

  async #renew(rows: readonly Row[]): Promise<Renewed[]> {
    const now = performance.now();
    const args = rows.flatMap(({ session, binding, heardAt }) => [
      session,
      binding,
      Math.max(0, Math.round(now - heardAt)),
    ]);
    const [at, results] = await this.#namespace.call<[string, number[]]>(renewScript, args);
    const states = ['gone', 'renewed', 'replaced'] as const;
    return results.map((result) => ({ at: Number(at), state: states[result]! }));
  }
}
