import type { SessionRef } from '../context.js';
import { Refusal } from '../errors.js';
import { Joiner } from '../lib/joiner.js';
import type { Service } from '../lib/service.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import { LongestTtl } from './longest-ttl.js';

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
  /** The newest frame that a renewal in Redis counts from. */
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

export type Renewed =
  | { readonly state: 'renewed'; readonly at: number }
  | { readonly state: 'gone'; readonly at: number }
  | { readonly state: 'replaced'; readonly at: number; readonly by: number };

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
  readonly #ttls = new LongestTtl();
  #timer: NodeJS.Timeout | undefined;
  #tickMs = 1000;
  #running = false;

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
    this.#running = true;
    this.#arm();
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  attach(ref: SessionRef): void {
    const now = performance.now();
    this.#kept.set(ref.id, { ref, heardAt: now, renewedAt: now, sending: false });
    this.#saw(ref, now);
    // The clock turns fast enough for the shortest session here, and no faster.
    const tickMs = Math.max(10, Math.min(1000, ref.ttlMs / 12));
    if (tickMs < this.#tickMs) {
      this.#tickMs = tickMs;
      if (this.#running) this.#arm();
    }
  }

  detach(ref: SessionRef): void {
    const kept = this.#mine(ref);
    this.#kept.delete(kept?.ref.id ?? '');
    // What was heard last counts although nothing more can be: the deadline runs from there.
    if (kept && kept.heardAt > kept.renewedAt) this.#send(kept);
    if (this.#kept.size === 0) this.#tickMs = 1000;
  }

  /** An inbound frame on the socket that `ref` is bound to. Called for every frame; an older socket's do not count. */
  heard(ref: SessionRef): void {
    const kept = this.#mine(ref);
    if (!kept) return;
    kept.heardAt = performance.now();
    // After a long silence the deadline may be nearer than the next tick: a frame that came in time is not lost to that.
    if (kept.heardAt - kept.renewedAt > ref.ttlMs / 2 && !kept.sending) this.#send(kept);
  }

  /** Renews now and answers when it is in Redis: the proof that a client may reckon with. */
  async prove(ref: SessionRef): Promise<Renewed> {
    const heardAt = performance.now();
    const [renewed] = await this.#renewals.add([{ session: ref.id, binding: ref.binding, heardAt }]);
    this.#learn(ref, renewed!, heardAt);
    return renewed!;
  }

  #mine(ref: SessionRef): Kept | undefined {
    const kept = this.#kept.get(ref.id);
    return kept?.ref.binding === ref.binding ? kept : undefined;
  }

  #saw({ ttlMs }: SessionRef, at: number): void {
    this.#ttls.saw(ttlMs, at);
    this.#namespace.longestTtlMs = this.#ttls.ms;
  }

  #learn(ref: SessionRef, { state }: Renewed, heardAt: number): void {
    if (state === 'renewed') this.#saw(ref, performance.now());
    const kept = this.#mine(ref);
    if (!kept) return;
    if (state === 'renewed') kept.renewedAt = Math.max(kept.renewedAt, heardAt);
    else if (state === 'gone') this.#hooks.lost(ref.id);
    else this.#hooks.replaced(ref.id);
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
    this.#ttls.forget(now);
    this.#namespace.longestTtlMs = this.#ttls.ms;
    for (const kept of this.#kept.values()) {
      const due = kept.heardAt > kept.renewedAt && now - kept.renewedAt >= kept.ref.ttlMs / 6;
      if (due && !kept.sending) this.#send(kept);
    }
  }

  #send(kept: Kept): void {
    kept.sending = true;
    const { ref, heardAt } = kept;
    const done = (): void => {
      kept.sending = false;
    };
    this.#renewals
      .add([{ session: ref.id, binding: ref.binding, heardAt }])
      .then(([renewed]) => this.#learn(ref, renewed!, heardAt))
      // Redis is away: the next tick tries again, and the lease clock stands still for as long.
      .then(done, done);
  }

  async #renew(rows: readonly Row[]): Promise<Renewed[]> {
    const now = performance.now();
    const args = rows.flatMap(({ session, binding, heardAt }) => {
      // Rounded down: the deadline may be a millisecond late for who waits, never early for who holds.
      return [session, binding, Math.max(0, Math.floor(now - heardAt))];
    });
    const [time, results] = await this.#namespace.call<[string, string[]]>(renewScript, args);
    const at = Number(time);
    return results.map((result): Renewed => {
      if (result === '') return { state: 'renewed', at };
      return result === '0' ? { state: 'gone', at } : { state: 'replaced', at, by: Number(result) };
    });
  }
}
