import { Refusal } from '../errors.js';
import type { Batches } from './batches.js';
import { Closed, Defer, type DeferOptions, Fail, type FailOptions } from './errors.js';
import type { Done } from './requests.js';
import type { Task } from './run.js';

export type Outcome =
  | { readonly kind: 'complete'; readonly result: unknown }
  | { readonly kind: 'fail'; readonly message: string; readonly options: FailOptions }
  | { readonly kind: 'release'; readonly options: DeferOptions };

type Owned = Pick<Task, 'task' | 'fence'>;

/** These may pass: the same report is made again, under the same fence, until it is answered. */
const passing = new Set(['UNAVAILABLE', 'TIMEOUT', 'INTERNAL', 'DRAINING', 'RATE_LIMITED', 'LIMIT']);
/** What was to be stored is too large or malformed: the same report would be refused again. */
const unfit = new Set(['TOO_LARGE', 'BAD_REQUEST', 'BAD_FRAME']);
const againMs = 200;
const againMaxMs = 5000;

/** What a handler threw, as the daemon is told. */
export function outcomeOf(error: unknown): Outcome {
  if (error instanceof Defer) return { kind: 'release', options: error.options };
  if (error instanceof Fail) {
    const { retry = error.options.afterMs !== undefined } = error.options;
    return { kind: 'fail', message: error.message, options: { ...error.options, retry } };
  }
  if (!(error instanceof Error)) return { kind: 'fail', message: String(error), options: {} };
  const { code } = error as { code?: unknown };
  const options: FailOptions = typeof code === 'string' && code.length > 0 && code.length <= 100 ? { code } : {};
  // A refusal met in the handler says when it is worth trying again.
  if (error instanceof Refusal && error.afterMs !== undefined) options.afterMs = error.afterMs;
  return { kind: 'fail', message: error.message || error.name, options };
}

/** Reports how attempts ended, and goes on doing so until the daemon has answered: the fence makes it safe. */
export class Outcomes {
  private readonly batches: Batches;
  private readonly onError: (error: Error) => void;
  private readonly owed = new Map<string, number>();
  private allBack: (() => void)[] = [];
  readonly progress: (params: string, done: Done) => void;

  constructor(batches: Batches, progress: (params: string, done: Done) => void, onError: (error: Error) => void) {
    this.batches = batches;
    this.progress = progress;
    this.onError = onError;
  }

  /** This task will be handed back, now or when its handler has settled: nobody else has to. */
  owe({ task, fence }: Owned): void {
    this.owed.set(task, fence);
  }

  owes(task: string, fence: number): boolean {
    return this.owed.get(task) === fence;
  }

  handBack(owned: Owned, reason: string): void {
    this.owe(owned);
    this.report(owned, { kind: 'release', options: { reason } }, () => {
      if (this.owes(owned.task, owned.fence)) this.owed.delete(owned.task);
      if (this.owed.size === 0) for (const resolve of this.allBack.splice(0)) resolve();
    });
  }

  /** Resolves when everything handed back has been answered. */
  returned(): Promise<void> {
    if (this.owed.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.allBack.push(resolve));
  }

  report(owned: Owned, outcome: Outcome, done: () => void): void {
    let text: string;
    try {
      text = textOf(owned, outcome);
    } catch (error) {
      // A result with a circle or a BigInt in it, say.
      this.report(owned, fitting(outcome, error as Error) ?? { kind: 'release', options: {} }, done);
      return;
    }
    this.send(owned, outcome, text, 0, done);
  }

  private send(owned: Owned, outcome: Outcome, text: string, tries: number, done: () => void): void {
    this.batches[outcome.kind].add(text, (error) => {
      if (!error) return done();
      const code = error instanceof Refusal ? error.code : '';
      if (passing.has(code)) {
        const delayMs = Math.min(againMaxMs, againMs * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);
        setTimeout(() => this.send(owned, outcome, text, tries + 1, done), delayMs).unref();
        return;
      }
      const smaller = unfit.has(code) ? fitting(outcome, error) : undefined;
      if (smaller) return this.report(owned, smaller, done);
      // STALE_FENCE and NOT_FOUND are how a loser learns it; anything else is a surprise.
      if (code !== 'STALE_FENCE' && code !== 'NOT_FOUND' && !(error instanceof Closed)) this.onError(error);
      done();
    });
  }
}

/** What is reported instead of an outcome that cannot be stored: something has to, or the task stays active. */
function fitting(outcome: Outcome, error: Error): Outcome | undefined {
  const code = error instanceof Refusal ? { code: error.code } : {};
  const message = `cannot be stored: ${error.message}`;
  if (outcome.kind === 'complete')
    return { kind: 'fail', message: `the result ${message}`, options: { retry: false, ...code } };
  if (outcome.kind === 'release') {
    return outcome.options.saved === undefined
      ? undefined
      : { kind: 'fail', message: `the saved state ${message}`, options: code };
  }
  const { data, ...rest } = outcome.options;
  return data === undefined ? undefined : { ...outcome, options: rest };
}

function textOf({ task, fence }: Owned, outcome: Outcome): string {
  switch (outcome.kind) {
    case 'complete':
      return JSON.stringify({ task, fence, result: outcome.result });
    case 'fail': {
      const { code, data, retry, afterMs } = outcome.options;
      return JSON.stringify({ task, fence, error: { message: cut(outcome.message), code, data }, retry, afterMs });
    }
    case 'release': {
      const { reason = 'deferred', afterMs, saved } = outcome.options;
      return JSON.stringify({ task, fence, reason: cut(reason), afterMs, saved });
    }
  }
}

/** Within the wire's bound for a sentence, and well formed even where an emoji was cut in two. */
const cut = (text: string): string => Buffer.from(text.slice(0, 1000)).toString();
