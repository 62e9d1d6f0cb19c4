import { Refusal, type WireError } from '../errors.js';
import type { Budget } from './budget.js';
import { refusalOf } from './errors.js';
import { lineBytesMax } from './options.js';
import type { Requests } from './requests.js';
import type { Frame } from './socket.js';

export type ItemDone = (error: Error | undefined, ok: Frame) => void;

interface Item {
  readonly text: string;
  readonly bytes: number;
  readonly done: ItemDone;
}

export interface JoinerOptions {
  readonly op: string;
  /** What stands before the items in the params: `{"queue":"q","tasks":[`. */
  readonly head: string;
  /** Under which name the answers stand. */
  readonly list: 'tasks' | 'events';
  readonly lane: 'control' | 'bulk';
  readonly timeoutMs: number;
  /** Sees the whole answer of a batch, besides its items. */
  readonly answered?: (ok: Frame) => void;
}

/**
 * A request is answered when the last of its items is. A turn with a hundred items in one request, and the hundred that
 * its answer sets off, would go in lockstep: client, daemon and Redis each work while the two others wait.
 */
const itemsMax = 50;

/** Room for `{"id":…,"op":"…","params":…}` around the params. */
const envelopeBytes = 200;

/**
 * Joins what is asked in one turn into few requests. Each item is made into JSON once, keeps its
 * own answer, and fails alone: a batch that is refused whole because one item is malformed is cut in halves until the
 * culprit is by itself (nothing of a refused batch was stored, and the items name their tasks).
 */
export class Joiner {
  private items: Item[] = [];
  private readonly options: JoinerOptions;
  private readonly requests: Requests;
  private readonly budget: Budget;
  private readonly roomBytes: number;

  constructor(options: JoinerOptions, requests: Requests, budget: Budget) {
    this.options = options;
    this.requests = requests;
    this.budget = budget;
    this.roomBytes = lineBytesMax - envelopeBytes - Buffer.byteLength(options.head);
  }

  add(text: string, done: ItemDone): void {
    const bytes = Buffer.byteLength(text) + 1;
    const isTooLarge = bytes > this.roomBytes;
    const refused = isTooLarge ? new Refusal('TOO_LARGE', `${bytes} bytes do not fit a line`) : this.budget.take(bytes);
    if (refused) {
      done(refused, {});
      return;
    }
    this.items.push({ text, bytes, done });
    this.requests.arm();
  }

  flush(): void {
    if (this.items.length === 0) return;
    const { items } = this;
    this.items = [];
    let from = 0;
    let bytes = 0;
    for (let at = 0; at < items.length; at++) {
      const next = items[at]!.bytes;
      if (at - from >= itemsMax || bytes + next > this.roomBytes) {
        this.send(items.slice(from, at));
        from = at;
        bytes = 0;
      }
      bytes += next;
    }
    this.send(from === 0 ? items : items.slice(from));
  }

  private send(items: Item[]): void {
    const { op, head, lane, timeoutMs } = this.options;
    let params = head + items[0]!.text;
    for (let i = 1; i < items.length; i++) params += ',' + items[i]!.text;
    this.requests.send(op, params + ']}', { lane, repeat: true, timeoutMs, charge: false }, (error, ok) =>
      error ? this.refused(items, error) : this.answer(items, ok),
    );
  }

  private answer(items: Item[], ok: Frame): void {
    this.options.answered?.(ok);
    const answers = (ok[this.options.list] ?? []) as (Frame & { error?: WireError })[];
    for (let i = 0; i < items.length; i++) {
      const answer = answers[i];
      if (answer === undefined)
        this.settle(items[i]!, new Refusal('INTERNAL', 'the answer has fewer items than the request'), {});
      // A task's own `error` (what a handler threw) does not stand in these answers: only a refusal does.
      else this.settle(items[i]!, answer.error && refusalOf(answer.error), answer);
    }
  }

  private refused(items: Item[], error: Error): void {
    const malformed = error instanceof Refusal && (error.code === 'BAD_REQUEST' || error.code === 'BAD_FRAME');
    if (malformed && items.length > 1) {
      const half = items.length >> 1;
      this.send(items.slice(0, half));
      this.send(items.slice(half));
      return;
    }
    for (const item of items) this.settle(item, error, {});
  }

  private settle(item: Item, error: Error | undefined, ok: Frame): void {
    this.budget.give(item.bytes);
    item.done(error, ok);
  }
}
