import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { onAbort } from './abort.js';
import { type Moment, now } from './clock.js';
import type { HoldingRow } from './crew.js';
import { Ended, type EndReason } from './errors.js';
import { type GiveBacks, mayBeOurs } from './give-backs.js';
import { HeldCall } from './held-call.js';
import type { Holder } from './holder.js';
import type { Amounts, LimitHandler, LimitOptions } from './limit-options.js';
import type { Requests } from './requests.js';
import type { Frame } from './socket.js';

interface Ways {
  readonly timeoutMs: number;
  readonly onError: (error: Error) => void;
}

const waitMsDefault = 60_000;
/** A push that never came is made good by asking again. */
const askAgainMs = 15_000;

/** What a wait became: granted, or over for a reason; `ask`: nobody told, so it is asked again. */
type Outcome = { readonly fence: number; readonly at: Moment } | { readonly reason: string } | 'ask' | 'session';
type Tell = (outcome: Outcome) => void;

/** The reservations of a client: those that wait and those that are spent by a handler. */
export class Limits {
  private readonly requests: Requests;
  private readonly holder: Holder;
  private readonly giveBacks: GiveBacks;
  private readonly timeoutMs: number;
  private readonly onError: (error: Error) => void;
  private readonly waits = new Map<string, Tell>();
  private readonly held = new Map<string, HeldCall>();
  /** What was asked or granted up to then was so under a session that has ended. */
  private lostAt = Number.NEGATIVE_INFINITY;

  constructor(requests: Requests, holder: Holder, giveBacks: GiveBacks, { timeoutMs, onError }: Ways) {
    this.requests = requests;
    this.holder = holder;
    this.giveBacks = giveBacks;
    this.timeoutMs = timeoutMs;
    this.onError = onError;
  }

  /**
   * Reserves, runs the handler, settles. What the handler made stands even if the reservation was lost under it: the
   * call was made, and what it took is told as well as it can be.
   */
  async run<R>(name: string, cost: Amounts, options: LimitOptions, handler: LimitHandler<R>): Promise<R> {
    const call = await this.take(name, cost, options);
    const { signal } = options;
    const unlisten = onAbort(signal, () => call.over('cancelled'));
    try {
      await call.begun;
      if (call.ended || signal?.aborted) {
        call.took(nothing(cost));
        throw signal?.aborted ? signal.reason : call.ended;
      }
      return await handler(call);
    } finally {
      unlisten();
      this.held.delete(call.reservation);
      this.holder.drop(call);
      await this.settle(call.reservation, call.actual).catch(this.onError);
    }
  }

  // ---- what the connection hears

  granted(frame: Frame): void {
    const { reservation, fence } = frame as unknown as { reservation: string; fence: number };
    const tell = this.waits.get(reservation);
    if (tell) tell({ fence, at: now() });
    else this.giveBacks.again(`reservation:${reservation}`);
  }

  waitEnded(frame: Frame): void {
    const { reservation, reason } = frame as unknown as { reservation: string; reason: string };
    this.waits.get(reservation)?.({ reason });
  }

  lost({ reservation, fence, reason }: { reservation?: string; fence?: number; reason: EndReason }): void {
    const call = reservation === undefined ? undefined : this.held.get(reservation);
    if (call?.fence === fence) call?.over(reason);
  }

  /** After a resume the holdings are the truth. */
  reconcile(rows: readonly HoldingRow[]): void {
    const known = new Map(rows.map((row) => [row.lease, row]));
    for (const call of this.held.values()) if (known.get(call.lease)?.fence !== call.fence) call.over('revoked');
    // Granted, or ended: asking again tells which, and how.
    for (const [id, tell] of this.waits) if (known.get(`reservation:${id}`)?.state !== 'waiting') tell('ask');
  }

  sessionLost(): void {
    this.lostAt = performance.now();
    for (const call of this.held.values()) call.over('sessionLost');
    for (const tell of [...this.waits.values()]) tell('session');
  }

  stop(reason: EndReason): void {
    for (const call of this.held.values()) call.over(reason);
    for (const tell of [...this.waits.values()]) tell({ reason });
  }

  // ---- inside

  private async take(name: string, cost: Amounts, options: LimitOptions): Promise<HeldCall> {
    const { signal, waitMs = waitMsDefault, leaseMs, weight } = options;
    const until = performance.now() + waitMs;
    for (let reservation = newId(), isAsked = false; ; ) {
      if (signal?.aborted) {
        if (isAsked) await this.settle(reservation, nothing(cost)).catch(this.onError);
        throw signal.reason;
      }
      const left = Math.max(0, Math.ceil(until - performance.now()));
      const params = { name, cost, reservation, waitMs: left, leaseMs, weight };
      const outcome = await this.ask(params, isAsked, signal);
      isAsked = outcome === 'ask';
      if (outcome === 'ask') continue;
      // The loss may overtake the answer, or meet it on its way to here: the next session knows nothing of that reservation.
      if (outcome === 'session' || ('fence' in outcome && outcome.at.mono <= this.lostAt)) {
        reservation = newId();
        continue;
      }
      if (signal?.aborted) {
        await this.settle(reservation, nothing(cost)).catch(this.onError);
        throw signal.reason;
      }
      if ('fence' in outcome) return this.hold(name, reservation, outcome.fence, leaseMs);
      if (outcome.reason === 'timeout') throw new Refusal('LIMITED', `${name} had no room for it in ${waitMs} ms`);
      if (outcome.reason === 'neverFits') throw new Refusal('NEVER_FITS');
      throw new Ended(outcome.reason);
    }
  }

  /**
   * One request, and if it has to wait, the wait. `again`: it has waited under this id before, and may have been granted
   * meanwhile, whatever is said of this request.
   */
  private async ask(
    params: { reservation: string; waitMs: number; cost: Amounts },
    again: boolean,
    signal?: AbortSignal,
  ): Promise<Outcome> {
    const { reservation, waitMs } = params;
    let tell: Tell = () => {};
    const told = new Promise<Outcome>((resolve) => {
      tell = resolve;
    });
    this.waits.set(reservation, tell);
    this.holder.waits(1);
    let timer: NodeJS.Timeout | undefined;
    const unlisten = onAbort(signal, () => tell({ reason: 'aborted' }));
    try {
      const { ok, sentAt } = await this.requests.ask('limit.reserve', params, this.timeoutMs);
      if (ok.state === 'granted') return { fence: ok.fence as number, at: sentAt };
      timer = setTimeout(() => tell('ask'), Math.min(askAgainMs, waitMs + 1000));
      timer.unref();
      const heard = await told;
      // The end of a session may have been told before this was asked again under the next one: there it waits.
      return heard === 'session' && sentAt.mono > this.lostAt ? 'ask' : heard;
    } catch (error) {
      // The first try was carried out under a session that has ended since.
      if (error instanceof Refusal && error.code === 'CONFLICT') return 'session';
      if (again || mayBeOurs(error)) await this.settle(reservation, nothing(params.cost)).catch(() => {});
      throw error;
    } finally {
      unlisten();
      clearTimeout(timer);
      this.waits.delete(reservation);
      this.holder.waits(-1);
    }
  }

  private hold(name: string, reservation: string, fence: number, leaseMs: number | undefined): HeldCall {
    const ask = (op: string, params: Record<string, unknown>): Promise<unknown> =>
      this.requests.ask(op, params, this.timeoutMs);
    const call = new HeldCall(name, reservation, fence, leaseMs, { holder: this.holder, ask });
    this.held.set(reservation, call);
    return call;
  }

  /** Until it is answered. */
  private settle(reservation: string, actual?: Amounts): Promise<void> {
    return this.giveBacks.give(`reservation:${reservation}`, async () => {
      try {
        await this.requests.ask('limit.settle', { reservation, actual }, this.timeoutMs);
      } catch (error) {
        // It has ended already and counts as spent: whoever had it was told by its signal.
        if (error instanceof Refusal && (error.code === 'NOT_FOUND' || error.code === 'SESSION_LOST')) return;
        throw error;
      }
    });
  }
}

/** It was never used: all of it comes back. */
const nothing = (cost: Amounts): Amounts =>
  Object.fromEntries(Object.keys(cost).flatMap((name) => (name === 'concurrency' ? [] : [[name, 0]])));
