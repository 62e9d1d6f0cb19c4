import { AsyncLocalStorage } from 'node:async_hooks';
import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { onAbort } from './abort.js';
import { type Moment, now } from './clock.js';
import { Ended, type EndReason } from './errors.js';
import { type GiveBacks, mayBeOurs } from './give-backs.js';
import { type HeldFrame, HeldLock } from './held-lock.js';
import type { Holder } from './holder.js';
import { type LockHandler, type LockNames, type LockOptions, paramsOf } from './lock-options.js';
import type { Requests } from './requests.js';
import type { Frame } from './socket.js';

/** A row of `holdings` that is a grant. */
interface Row {
  readonly lease: string;
  readonly kind: string;
  readonly state?: string;
  readonly fence?: number;
}

interface Ways {
  readonly timeoutMs: number;
  readonly onError: (error: Error) => void;
}

const waitMsDefault = 60_000;
/** A push that never came is made good by asking again. */
const askAgainMs = 15_000;

const owners = new AsyncLocalStorage<string>();

/** What a wait became: granted, or over for a reason; `ask`: nobody told, so it is asked again. */
type Outcome = { readonly held: HeldFrame; readonly at: Moment } | { readonly reason: string } | 'ask' | 'session';

/** One wait: what it became, told once, before or after somebody asks. */
class Wait {
  private outcome: Outcome | undefined;
  private wake: (outcome: Outcome) => void = () => {};

  tell(outcome: Outcome): void {
    this.outcome ??= outcome;
    this.wake(this.outcome);
  }

  told(): Promise<Outcome> {
    if (this.outcome) return Promise.resolve(this.outcome);
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }
}

/** The locks of a client: those that wait and those that are held, by grant. */
export class Locks {
  private readonly requests: Requests;
  private readonly holder: Holder;
  private readonly giveBacks: GiveBacks;
  private readonly timeoutMs: number;
  private readonly onError: (error: Error) => void;
  private readonly waits = new Map<string, Wait>();
  private readonly held = new Map<string, HeldLock>();
  /** What was asked or granted up to then was so under a session that has ended. */
  private lostAt = Number.NEGATIVE_INFINITY;

  constructor(requests: Requests, holder: Holder, giveBacks: GiveBacks, { timeoutMs, onError }: Ways) {
    this.requests = requests;
    this.holder = holder;
    this.giveBacks = giveBacks;
    this.timeoutMs = timeoutMs;
    this.onError = onError;
  }

  /** Takes the lock, runs the handler, gives it back. What the handler makes after the loss of the lock is not returned. */
  async run<R>(names: LockNames, options: LockOptions, handler: LockHandler<R>): Promise<R> {
    const owner = options.owner ?? owners.getStore() ?? newId();
    const lock = await this.take(names, { ...options, owner });
    const { signal } = options;
    const unlisten = onAbort(signal, () => lock.over('cancelled', true));
    try {
      if (!lock.hasBegun) await lock.begun();
      // It has ended, or nobody wants it any more, while its proof was awaited.
      if (signal?.aborted) throw signal.reason;
      if (lock.ended) throw lock.ended;
      const result = await owners.run(owner, () => handler(lock));
      this.holder.check();
      if (lock.ended && !lock.asked) throw lock.ended;
      return result;
    } finally {
      unlisten();
      this.held.delete(lock.grant);
      lock.drop();
      await this.giveBack(lock);
    }
  }

  // ---- what the connection hears

  granted(frame: Frame): void {
    const { grant } = frame as unknown as { grant: string };
    const wait = this.waits.get(grant);
    if (wait) wait.tell({ held: frame as unknown as HeldFrame, at: now() });
    else this.giveBacks.again(`lock:${grant}`);
  }

  waitEnded(frame: Frame): void {
    const { grant, reason } = frame as unknown as { grant: string; reason: string };
    this.waits.get(grant)?.tell({ reason });
  }

  lost({ grant, fence, reason }: { grant?: string; fence?: number; reason: EndReason }): void {
    const lock = grant === undefined ? undefined : this.held.get(grant);
    if (lock && lock.fence === fence) lock.over(reason);
  }

  /** After a resume the holdings are the truth. */
  reconcile(rows: readonly Row[]): void {
    const grants = new Map(
      rows.filter(({ kind }) => kind === 'lock').map((row) => [row.lease.slice('lock:'.length), row]),
    );
    for (const [grant, lock] of this.held) {
      if (grants.get(grant)?.fence !== lock.fence) lock.over('revoked');
    }
    for (const [grant, wait] of this.waits) {
      // Granted, or ended: asking again tells which, and how.
      if (grants.get(grant)?.state !== 'waiting') wait.tell('ask');
    }
  }

  /** The store may have lost who holds what: whatever it has of ours is claimed back while nobody else may have it. */
  epoch(epoch: string): void {
    for (const lock of this.held.values()) if (lock.epoch !== epoch) void this.reclaim(lock, epoch);
  }

  /** The session has ended. What it held may be claimed back by the next one, if the store was lost with it. */
  sessionLost(): void {
    this.lostAt = performance.now();
    for (const lock of this.held.values()) lock.orphan();
    for (const wait of [...this.waits.values()]) wait.tell('session');
  }

  /** A new session is open, in this epoch. */
  sessionOpened(epoch: string): void {
    for (const lock of this.held.values()) {
      if (!lock.isOrphan) continue;
      if (lock.epoch === epoch) lock.over('sessionLost');
      else void this.reclaim(lock, epoch);
    }
  }

  stop(reason: EndReason): void {
    for (const lock of this.held.values()) lock.over(reason);
    for (const wait of [...this.waits.values()]) wait.tell({ reason });
  }

  // ---- inside

  private async take(names: LockNames, options: LockOptions & { owner: string }): Promise<HeldLock> {
    const { signal, waitMs = waitMsDefault } = options;
    const until = performance.now() + waitMs;
    for (let grant = newId(), isAsked = false; ; ) {
      if (signal?.aborted) {
        if (isAsked) await this.release(grant).catch(this.onError);
        throw signal.reason;
      }
      const left = Math.max(0, Math.ceil(until - performance.now()));
      const params = paramsOf(names, options, grant, left);
      const outcome = await this.ask(grant, params, isAsked, signal);
      isAsked = outcome === 'ask';
      if (outcome === 'ask') continue;
      // The loss may overtake the answer, or meet it on its way to here: the next session knows nothing of that grant.
      if (outcome === 'session' || ('held' in outcome && outcome.at.mono <= this.lostAt)) {
        grant = newId();
        continue;
      }
      if ('held' in outcome) {
        if (!signal?.aborted) return this.hold(grant, params, options, outcome);
        await this.release(grant).catch(this.onError);
        throw signal.reason;
      }
      if (signal?.aborted) throw signal.reason;
      if (outcome.reason === 'timeout')
        throw new Refusal('HELD', `not free in time: ${params.name ?? 'all of the locks at once'}`);
      if (outcome.reason === 'neverFits') throw new Refusal('NEVER_FITS');
      throw new Ended(outcome.reason);
    }
  }

  /**
   * One request, and if it has to wait, the wait. An abort ends it by giving the grant back, once the request is answered.
   * `again`: it has waited under this grant before, and may have got it meanwhile, whatever is said of this request.
   */
  private async ask(
    grant: string,
    params: Record<string, unknown>,
    again: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Outcome> {
    const wait = new Wait();
    this.waits.set(grant, wait);
    this.holder.waits(1);
    let timer: NodeJS.Timeout | undefined;
    const unlisten = onAbort(signal, () => wait.tell({ reason: 'aborted' }));
    try {
      const reply = await this.requests.ask('lock.acquire', params, this.timeoutMs);
      if (reply.ok.state === 'held') return { held: reply.ok as unknown as HeldFrame, at: reply.sentAt };
      timer = setTimeout(() => wait.tell('ask'), Math.min(askAgainMs, (params.waitMs as number) + 1000));
      timer.unref();
      const heard = await wait.told();
      // The end of a session may have been told before this was asked again under the next one: there it waits.
      const outcome = heard === 'session' && reply.sentAt.mono > this.lostAt ? 'ask' : heard;
      if (outcome !== 'session' && outcome !== 'ask' && 'reason' in outcome && outcome.reason === 'aborted') {
        await this.release(grant).catch(this.onError);
      }
      return outcome;
    } catch (error) {
      // The first try was carried out under a session that has ended since, or what it got was lost before we heard of it.
      if (error instanceof Refusal && (error.code === 'CONFLICT' || error.code === 'STALE_FENCE')) return 'session';
      if (again || mayBeOurs(error)) await this.release(grant).catch(() => {});
      throw error;
    } finally {
      unlisten();
      clearTimeout(timer);
      this.waits.delete(grant);
      this.holder.waits(-1);
    }
  }

  private hold(
    grant: string,
    params: Record<string, unknown>,
    { leaseMs }: LockOptions,
    { held, at }: { held: HeldFrame; at: Moment },
  ): HeldLock {
    const lock = new HeldLock(grant, params, leaseMs, held, at, this.holder);
    this.held.set(grant, lock);
    lock.begin();
    return lock;
  }

  private async giveBack(lock: HeldLock): Promise<void> {
    // It ended with its session: from the next one this would be a stranger's try, and the log would tell of it.
    if (lock.claimedAt <= this.lostAt) return;
    const released = this.release(lock.grant);
    // Of a lost one it is a courtesy: nobody waits for a daemon that may be away.
    if (lock.ended && !lock.asked) released.catch(() => {});
    else await released.catch(this.onError);
  }

  private async reclaim(lock: HeldLock, epoch: string): Promise<void> {
    if (lock.reclaiming === epoch) return;
    lock.reclaiming = epoch;
    lock.claimedAt = Number.POSITIVE_INFINITY;
    try {
      const { ok, sentAt } = await this.requests.ask(
        'lock.acquire',
        { ...lock.params, waitMs: 0, reclaim: lock.fence },
        this.timeoutMs,
      );
      if (this.held.get(lock.grant) === lock) lock.reclaimed(ok as unknown as HeldFrame, sentAt);
    } catch (error) {
      if (error instanceof Refusal && error.retry) {
        // Nothing is known; the holder's rule ends it in time if nothing comes to be known.
        lock.reclaiming = undefined;
        return;
      }
      lock.over('staleFence');
    }
  }

  /** Until it is answered: the daemon may be away just now, and the grant must not stay. */
  private release(grant: string): Promise<void> {
    return this.giveBacks.give(`lock:${grant}`, async () => {
      try {
        await this.requests.ask('lock.release', { grant }, this.timeoutMs);
      } catch (error) {
        // Whoever it belongs to now, it is not us.
        if (error instanceof Refusal && (error.code === 'NOT_OWNER' || error.code === 'SESSION_LOST')) return;
        throw error;
      }
    });
  }
}
