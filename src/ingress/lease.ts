import { publishedMax } from '../feed/published.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import type { TapePlace } from './tape.js';

const leaseArgs = ['namespaceName', 'fence', 'leaseMs', 'mark', 'count', 'doneAgoMs', 'newMark'];
const leaseScript = lua(import.meta.url, './lease.lua', leaseArgs);
const releaseScript = lua(import.meta.url, './release.lua', ['namespaceName', 'fence', 'mark', 'count', 'doneAgoMs']);
const appendArgs = ['fence', 'mark', 'count', 'doneAgoMs', 'gapUntilAgoMs', 'windowMs', 'publishedMax'];
const appendScript = lua(import.meta.url, './append.lua', appendArgs);

/** On the way to Redis instants given as `…AgoMs` get older; what must not come out too late is given as older still. */
export const latencyMs = 250;

/** How far the log is: behind `place`, and everything said longer than `doneAgoMs` ago is in it. */
export interface Done {
  readonly place: TapePlace;
  readonly doneAgoMs: number;
}

export type Taken =
  | { readonly taken: false; readonly freeInMs: number }
  /** `done` is absent where nobody has ever appended, or the store was emptied. */
  | { readonly taken: true; readonly done: Done | undefined };

/** The right to append what is PUBLISHed into one namespace: held by one daemon at a time, checked in every append. */
export class IngressLease {
  readonly #namespace: Namespace;
  readonly #leaseMs: number;
  readonly #windowMs: number;
  #marks = 0;
  /** Empty: not ours. */
  fence = '';

  constructor(namespace: Namespace, settings: { readonly leaseMs: number; readonly publishWindowMs: number }) {
    this.#namespace = namespace;
    this.#leaseMs = settings.leaseMs;
    this.#windowMs = settings.publishWindowMs;
  }

  get held(): boolean {
    return this.fence !== '';
  }

  /** `doneAgoMs`: since when the caller listens without a break. */
  async take(doneAgoMs: number): Promise<Taken> {
    const [taken, fence, mark, count, ago] = await this.#ask('', { place: { mark: '', count: 0 }, doneAgoMs });
    if (taken === 0) return { taken: false, freeInMs: Number(mark) };
    this.fence = fence;
    if (ago === '') return { taken: true, done: undefined };
    return { taken: true, done: { place: { mark, count: Number(count) }, doneAgoMs: Number(ago) } };
  }

  async renew(done: Done): Promise<void> {
    const { fence } = this;
    const [kept] = await this.#ask(fence, done);
    if (kept === 0 && this.fence === fence) this.fence = '';
  }

  /** False: the lease is lost and nothing was written. */
  async append(
    args: readonly (string | number)[],
    { place, doneAgoMs }: Done,
    gapUntilAgoMs: number | '',
  ): Promise<boolean> {
    const head = [
      this.fence,
      place.mark,
      place.count,
      doneAgoMs + latencyMs,
      gapUntilAgoMs,
      this.#windowMs,
      publishedMax,
    ];
    const done = await this.#namespace.call<number>(appendScript, [...head, ...args]);
    if (done === 0) this.fence = '';
    return done === 1;
  }

  async release({ place, doneAgoMs }: Done): Promise<void> {
    const { fence } = this;
    this.fence = '';
    const args = [this.#namespace.name, fence, place.mark, place.count, doneAgoMs + latencyMs];
    await this.#namespace.call(releaseScript, args);
  }

  #ask(fence: string, { place, doneAgoMs }: Done): Promise<[number, string, string, string, string]> {
    const { mark, count } = place;
    const ago = doneAgoMs + latencyMs;
    return this.#namespace.call(leaseScript, [
      this.#namespace.name,
      fence,
      this.#leaseMs,
      mark,
      count,
      ago,
      ++this.#marks,
    ]);
  }
}
