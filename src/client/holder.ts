import type { WireError } from '../errors.js';
import { elapsedMs, type Moment, now } from './clock.js';
import { type EndReason, refusalOf } from './errors.js';
import type { Held, Holding, Term } from './holding.js';
import { batchMax } from './options.js';
import type { Requests } from './requests.js';

const timerMaxMs = 2 ** 31 - 1;

/**
 * The holder's rule. The daemon promises to give nothing away earlier than `validMs` after it last heard us, and only
 * an answer proves that it did, counted from when the question was sent. So we ask every sixth of the shortest
 * `validMs`, and what could not be proved for `validMs` minus a margin is over, whatever the socket looks like. After a
 * freeze timers are late: `check` is called before every line that comes or goes, and by `signal.aborted`.
 */
export class Holder {
  private readonly held = new Map<string, Held>();
  private readonly own = new Map<string, Held>();
  private readonly terms = new Set<Term>();
  private readonly requests: Requests;
  private readonly proved: (ok: { epoch?: unknown }) => void;
  private provenAt: Moment = now();
  private pingedAt: Moment = now();
  private ttlMs = 0;
  private online = false;
  private timer: NodeJS.Timeout | undefined;
  private wakeAt = Number.POSITIVE_INFINITY;
  /** Nothing ends before both: the fast path of `check`. */
  private endMono = Number.POSITIVE_INFINITY;
  private endWall = Number.POSITIVE_INFINITY;
  /** True while work may be pushed to us: then the proof is kept fresh, so that it can begin at once. */
  expecting = false;
  /** The same while locks or limits are waited for: how many. */
  private waiting = 0;

  /** `proved` hears what the answers to our pings say. */
  constructor(requests: Requests, proved: (ok: { epoch?: unknown }) => void = () => {}) {
    this.requests = requests;
    this.proved = proved;
  }

  /** The socket must be read: answers prove, and work may come. */
  get isNeeded(): boolean {
    return this.expecting || this.waiting > 0 || this.held.size + this.own.size > 0;
  }

  /** session.open was answered. It renews the session, not the leases of their own: those are renewed right away. */
  opened(ttlMs: number, sentAt: Moment): void {
    this.ttlMs = ttlMs;
    this.online = true;
    this.pingedAt = sentAt;
    this.proven(sentAt);
    this.renewAll([...this.own.values()]);
    this.wake();
  }

  offline(): void {
    this.online = false;
  }

  /**
   * Takes charge of `holding`; `begin` is called at once if the session was proved lately. If not (we were frozen, or
   * idle on a dead link), the push may be older than it looks, and the work begins only with the next proof.
   */
  hold(holding: Holding, begin: () => void): void {
    const { leaseMs } = holding;
    const held: Held = { holding, provenAt: this.provenAt, renewedAt: this.provenAt, begin: undefined };
    const validMs = this.validFor(holding);
    const isFresh = elapsedMs(this.provenAt) < validMs / 2;
    if (!isFresh) {
      held.provenAt = now();
      held.begin = begin;
    }
    (leaseMs === undefined ? this.held : this.own).set(holding.lease, held);
    this.limit(held.provenAt, validMs);
    if (isFresh) begin();
    else if (leaseMs === undefined) this.ping();
    else this.renew([held]);
    this.wakeBefore(validMs / 6 - (leaseMs === undefined ? elapsedMs(this.pingedAt) : 0));
  }

  /** Its lease was given or renewed by an answer to what was sent at `at`. */
  given(holding: Holding, at: Moment): void {
    const held = this.own.get(holding.lease);
    if (held?.holding !== holding) return;
    held.unknownAt = undefined;
    held.provenAt = at;
    this.measure();
    beginNow(held);
  }

  drop(holding: Holding): void {
    const { held } = this;
    const map = holding.leaseMs === undefined ? held : this.own;
    if (map.get(holding.lease)?.holding === holding) map.delete(holding.lease);
  }

  /** It is surely ours for `validMs` after `from` and no longer, held here or not. */
  end(holding: Holding, from: Moment, validMs: number, reason: EndReason): Term {
    const term = { holding, from, validMs, reason };
    this.terms.add(term);
    this.limit(from, validMs);
    this.wakeBefore(surelyMs(validMs) - elapsedMs(from));
    return term;
  }

  forget(term: Term | undefined): void {
    if (term) this.terms.delete(term);
  }

  /** A wait for a lock or a limit begins, or is over. */
  waits(by: 1 | -1): void {
    const before = this.waiting > 0;
    this.waiting = Math.max(0, this.waiting + by);
    if (this.waiting > 0 !== before) this.wake();
  }

  /** How long a proof is good for. A lease of its own ends with the session all the same. */
  validFor({ leaseMs = this.ttlMs, validMs = this.ttlMs }: Holding): number {
    return Math.min(leaseMs, validMs, this.ttlMs);
  }

  /** When it was proved ours last; undefined if it is not held here. */
  provenFor(holding: Holding): Moment | undefined {
    const held = (holding.leaseMs === undefined ? this.held : this.own).get(holding.lease);
    return held?.holding === holding ? this.provenOf(held) : undefined;
  }

  /** Ends what is no longer surely ours. */
  check(): void {
    if (performance.now() < this.endMono && Date.now() < this.endWall) return;
    const ended: { holding: Holding; reason: EndReason }[] = [];
    for (const map of [this.held, this.own]) {
      for (const [lease, held] of map) {
        if (elapsedMs(this.provenOf(held)) < surelyMs(this.validFor(held.holding))) continue;
        map.delete(lease);
        ended.push({ holding: held.holding, reason: 'cannotRenew' });
      }
    }
    for (const term of this.terms) {
      if (elapsedMs(term.from) < surelyMs(term.validMs)) continue;
      this.terms.delete(term);
      ended.push(term);
    }
    this.measure();
    for (const { holding, reason } of ended) holding.over(reason);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.held.clear();
    this.own.clear();
    this.terms.clear();
    this.expecting = false;
    this.waiting = 0;
  }

  /** Looks at everything that may be due now, and sleeps until the next. */
  wake(): void {
    clearTimeout(this.timer);
    this.check();
    this.wakeAt = Number.POSITIVE_INFINITY;
    if (this.online) this.ask();
    this.wakeBefore(this.endMono - performance.now() + 1);
  }

  /** Asks for the proofs that are due, and sleeps until the next one is. */
  private ask(): void {
    const everyMs =
      this.held.size > 0
        ? this.shortestMs() / 6
        : this.expecting || this.waiting > 0
          ? this.ttlMs / 3
          : Number.POSITIVE_INFINITY;
    if (elapsedMs(this.pingedAt) >= everyMs) this.ping();
    this.renewAll(
      [...this.own.values()].filter((held) => elapsedMs(held.renewedAt) >= this.validFor(held.holding) / 6),
    );
    this.wakeBefore(everyMs - elapsedMs(this.pingedAt));
    for (const held of this.own.values()) this.wakeBefore(this.validFor(held.holding) / 6 - elapsedMs(held.renewedAt));
  }

  private wakeBefore(dueMs: number): void {
    const afterMs = Math.min(Math.max(dueMs, 1), timerMaxMs);
    const at = performance.now() + afterMs;
    if (at >= this.wakeAt || !Number.isFinite(dueMs)) return;
    this.wakeAt = at;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.wake(), afterMs);
    this.timer.unref();
  }

  private ping(): void {
    this.pingedAt = now();
    if (!this.online) return;
    this.requests.send('ping', '{}', { lane: 'direct', repeat: false, timeoutMs: this.ttlMs }, (error, ok, sentAt) => {
      if (error) return;
      this.proven(sentAt);
      this.proved(ok);
      this.lapse(String(ok.epoch), sentAt);
    });
  }

  private proven(sentAt: Moment): void {
    if (sentAt.mono > this.provenAt.mono) this.provenAt = sentAt;
    this.measure();
    for (const held of this.held.values()) beginNow(held);
  }

  private renewAll(all: Held[]): void {
    for (let i = 0; i < all.length; i += batchMax) this.renew(all.slice(i, i + batchMax));
  }

  private renew(all: Held[]): void {
    for (const held of all) held.renewedAt = now();
    if (!this.online) return;
    const leases = all.map(({ holding: { lease, fence } }) => ({ lease, fence }));
    const traits = { lane: 'direct', repeat: false, timeoutMs: this.ttlMs } as const;
    this.requests.send('lease.renew', JSON.stringify({ leases }), traits, (error, ok, sentAt) => {
      const answers = (ok.leases ?? []) as { error?: WireError }[];
      if (error) return;
      for (const [i, held] of all.entries()) this.renewed(held, answers[i]?.error, sentAt);
      if (all.some(({ unknownAt }) => unknownAt !== undefined)) this.ping();
    });
  }

  private renewed(held: Held, error: WireError | undefined, sentAt: Moment): void {
    const { holding } = held;
    if (this.own.get(holding.lease) !== held) return;
    if (!error) {
      this.given(holding, sentAt);
      return;
    }
    const { code } = refusalOf(error);
    if (code === 'NOT_FOUND' && holding.isReclaimed) held.unknownAt = performance.now();
    else if (code === 'STALE_FENCE' || code === 'NOT_FOUND') this.lapsed(held);
  }

  /** In the epoch they were given in, what the daemon does not know is over. */
  private lapse(epoch: string, askedAt: Moment): void {
    for (const held of [...this.own.values()]) {
      if (held.unknownAt === undefined || held.unknownAt > askedAt.mono) continue;
      if (!held.holding.isReclaimed?.(epoch)) this.lapsed(held);
    }
  }

  private lapsed({ holding }: Held): void {
    this.own.delete(holding.lease);
    holding.over('leaseLapsed');
  }

  private shortestMs(): number {
    let shortest = this.ttlMs;
    for (const { holding } of this.held.values()) shortest = Math.min(shortest, holding.validMs ?? shortest);
    return shortest;
  }

  private provenOf(held: Held): Moment {
    // A push whose proof is awaited counts from when it came: the session's proof is old, that is why it waits.
    return held.holding.leaseMs === undefined && !held.begin ? this.provenAt : held.provenAt;
  }

  private limit(provenAt: Moment, validMs: number): void {
    this.endMono = Math.min(this.endMono, provenAt.mono + surelyMs(validMs));
    this.endWall = Math.min(this.endWall, provenAt.wall + surelyMs(validMs));
  }

  private measure(): void {
    this.endMono = Number.POSITIVE_INFINITY;
    this.endWall = Number.POSITIVE_INFINITY;
    for (const map of [this.held, this.own]) {
      for (const held of map.values()) this.limit(this.provenOf(held), this.validFor(held.holding));
    }
    for (const { from, validMs } of this.terms) this.limit(from, validMs);
  }
}

/** How long after its proof a holding is surely ours: our clock may run slow, and stopping takes a moment. */
export const surelyMs = (validMs: number): number => validMs - Math.max(50, validMs * 0.02);

function beginNow(held: Held): void {
  const { begin } = held;
  held.begin = undefined;
  begin?.();
}
