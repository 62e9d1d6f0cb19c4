import { setTimeout as sleep } from 'node:timers/promises';
import { Refusal } from '../errors.js';
import { newId } from '../lib/ids.js';
import { onAbort } from './abort.js';
import { Ended, type EndReason, Fail } from './errors.js';
import { type GiveBacks, mayBeOurs } from './give-backs.js';
import { HeldOnce } from './held-once.js';
import type { Holder } from './holder.js';
import {
  fingerprintOf,
  type OnceHandler,
  type OnceOptions,
  type OnceOutcome,
  OnceUnknown,
  outcomeOf,
} from './once-options.js';
import type { Requests } from './requests.js';

interface Begun {
  readonly state: 'new' | 'inProgress' | 'done' | 'unknown';
  readonly fence: number;
  readonly attempts: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly code?: string; readonly data?: unknown };
  readonly holder?: { readonly session: string; readonly agent: string };
  readonly leaseEndsAt?: string;
}

const leaseMsDefault = 60_000;
const lookAgainMs = 50;
const lookAgainMaxMs = 1000;
const againMs = 200;
const againMaxMs = 5000;

/** The once keys that this client holds, and what becomes of them. */
export class Onces {
  private readonly requests: Requests;
  private readonly holder: Holder;
  private readonly giveBacks: GiveBacks;
  private readonly timeoutMs: number;
  private readonly held = new Map<string, HeldOnce>();
  /** What was begun up to then was so under a session that has ended. */
  private lostAt = Number.NEGATIVE_INFINITY;

  constructor(requests: Requests, holder: Holder, giveBacks: GiveBacks, timeoutMs: number) {
    this.requests = requests;
    this.holder = holder;
    this.giveBacks = giveBacks;
    this.timeoutMs = timeoutMs;
  }

  /** Runs the handler if nobody has, and answers what it made, or what it made for somebody else before. */
  async run<R>(key: string, payload: unknown, options: OnceOptions<R>, handler: OnceHandler<R>): Promise<R> {
    const { leaseMs = leaseMsDefault, keepMs } = options;
    const begun = await this.begin(
      { key, fingerprint: fingerprintOf(payload), attempt: newId(), leaseMs, keepMs },
      options,
    );
    if (begun.state === 'done') return resultOf(begun) as R;
    const call = new HeldOnce(key, begun, leaseMs, this.holder);
    this.held.set(key, call);
    const { signal } = options;
    const isUnknown = begun.state === 'unknown';
    const unlisten = onAbort(signal, () => call.cancel(signal?.reason));
    try {
      await call.begin();
      if (call.ended) throw call.ended;
      if (signal?.aborted) {
        // Nothing was done: the next one finds the key as we did.
        await this.fail(call, isUnknown ? 'unknown' : 'retryable', signal.reason);
        throw signal.reason;
      }
      return await this.act(call, isUnknown, options, handler);
    } finally {
      unlisten();
      if (this.held.get(key) === call) this.held.delete(key);
      call.drop();
    }
  }

  /** The daemon says that a key is no longer ours. */
  lost({ name, fence, reason }: { name: string; fence?: number; reason: EndReason }): void {
    const call = this.held.get(name);
    if (!call || call.fence !== fence) return;
    call.drop();
    call.over(reason);
  }

  /** After a resume the holdings are the truth. */
  reconcile(rows: readonly { readonly lease: string; readonly fence?: number }[]): void {
    const fences = new Map(rows.map(({ lease, fence }) => [lease, fence]));
    for (const call of [...this.held.values()]) {
      if (fences.get(call.lease) !== call.fence) this.lost({ name: call.key, fence: call.fence, reason: 'revoked' });
    }
  }

  loseAll(reason: EndReason): void {
    this.lostAt = performance.now();
    for (const call of [...this.held.values()]) this.lost({ name: call.key, fence: call.fence, reason });
  }

  /** Asks until the key is ours, or done; waits for whoever is at it. */
  private async begin(params: Record<string, unknown>, { waitMs = 0, signal }: Pick<OnceOptions, 'waitMs' | 'signal'>) {
    const until = performance.now() + waitMs;
    for (let pauseMs = lookAgainMs; ; pauseMs = Math.min(pauseMs * 2, lookAgainMaxMs)) {
      signal?.throwIfAborted();
      const { ok, sentAt } = await this.requests.ask('once.begin', params, this.timeoutMs).catch(async (error) => {
        if (mayBeOurs(error)) await this.giveBack(params).catch(() => {});
        throw error;
      });
      const begun = ok as unknown as Begun;
      if (begun.state === 'done') return begun;
      if (begun.state !== 'inProgress') {
        // The loss has overtaken the answer: nobody keeps the key for us any more.
        if (sentAt.mono <= this.lostAt) throw new Ended('sessionLost');
        return begun;
      }
      const left = until - performance.now();
      if (left <= 0) throw held(String(params.key), begun);
      await sleep(Math.min(pauseMs, left), undefined, signal ? { signal } : {});
    }
  }

  /** Whether it is ours the same attempt tells, and under which fence. Nothing was done: it is left as it was found. */
  private giveBack(params: Record<string, unknown>): Promise<void> {
    const { key, attempt } = params;
    return this.giveBacks.give(`once:${attempt}`, async () => {
      const { ok } = await this.requests.ask('once.begin', params, this.timeoutMs);
      const { state, fence } = ok as unknown as Begun;
      if (state === 'inProgress' || state === 'done') return;
      const outcome = state === 'unknown' ? 'unknown' : 'retryable';
      const error = { message: 'the answer to its begin was lost' };
      await this.requests.ask('once.fail', { key, fence, outcome, error }, this.timeoutMs);
    });
  }

  private async act<R>(
    call: HeldOnce,
    isUnknown: boolean,
    options: OnceOptions<R>,
    handler: OnceHandler<R>,
  ): Promise<R> {
    const { key, attempts } = call;
    let result: R;
    try {
      const run = async (): Promise<R> => handler(call);
      if (!isUnknown) result = await run();
      else if (options.onUnknown) result = await options.onUnknown(call, run);
      else throw new OnceUnknown(key, attempts);
    } catch (error) {
      this.holder.check();
      if (call.ended) throw call.ended;
      const outcome = error instanceof OnceUnknown ? 'unknown' : (options.onError ?? outcomeOf)(error);
      await this.fail(call, outcome, error);
      throw error;
    }
    this.holder.check();
    // Others may have been told that nobody knows: what came out of it is not passed on as if it were kept.
    if (call.ended) throw call.ended;
    await this.finish(call, result);
    return result;
  }

  private async finish(call: HeldOnce, result: unknown): Promise<void> {
    const { key, fence } = call;
    try {
      await this.tell(call, 'once.finish', { key, fence, result });
    } catch (error) {
      // It was done and must not be done again, although what came out of it cannot be kept (too large, a circle).
      if (isUnfit(error)) await this.fail(call, 'final', error);
      throw error;
    }
  }

  private async fail(call: HeldOnce, outcome: OnceOutcome, cause: unknown): Promise<void> {
    const { key, fence } = call;
    const error = faultOf(cause);
    try {
      await this.tell(call, 'once.fail', { key, fence, outcome, error });
    } catch (refused) {
      // What it means is worth more than what it says.
      if (!isUnfit(refused)) throw refused;
      await this.tell(call, 'once.fail', { key, fence, outcome, error: { message: error.message.slice(0, 200) } });
    }
  }

  /** How it ended is told until the daemon has answered, as long as the key is ours: the fence makes that safe. */
  private async tell(call: HeldOnce, op: string, params: Record<string, unknown>): Promise<void> {
    for (let pauseMs = againMs; ; pauseMs = Math.min(pauseMs * 2, againMaxMs)) {
      try {
        await this.requests.ask(op, params, this.timeoutMs);
        return;
      } catch (error) {
        this.holder.check();
        if (call.ended) throw call.ended;
        const code = error instanceof Refusal ? error.code : undefined;
        if (code === 'STALE_FENCE' || code === 'NOT_FOUND') throw new Ended('staleFence');
        if (!(error instanceof Refusal) || !error.retry) throw error;
        await sleep(pauseMs);
      }
    }
  }
}

/** What was to be stored is too large or malformed: the same words would be refused again. */
const isUnfit = (error: unknown): boolean =>
  error instanceof TypeError || (error instanceof Refusal && /^(TOO_LARGE|BAD_)/.test(error.code));

function resultOf({ result, error }: Begun): unknown {
  if (!error) return result;
  const { message, ...rest } = error;
  throw new Fail(message, rest);
}

function held(key: string, { holder, leaseEndsAt }: Begun): Refusal {
  return new Refusal('HELD', `${key} is being done by ${holder?.agent}`, {
    afterMs: lookAgainMaxMs,
    details: { holder, endsAt: leaseEndsAt },
  });
}

function faultOf(error: unknown): { message: string; code?: string; data?: unknown } {
  const message = (error instanceof Error ? error.message || error.name : String(error)).slice(0, 1000).toWellFormed();
  if (error instanceof Fail) return { message, ...pick(error.options.code), data: error.options.data };
  return { message, ...pick((error as { code?: unknown } | undefined)?.code) };
}

const pick = (code: unknown): { code?: string } =>
  typeof code === 'string' && code.length > 0 && code.length <= 100 ? { code } : {};
