import { publishedMax } from '../feed/published.js';
import type { Namespace } from '../redis/namespace.js';
import { lua } from '../redis/script.js';
import type { TapePlace } from './tape.js';

const leaseArgs = ['namespaceName', 'fence', 'leaseMs', 'mark', 'count', 'doneAt', 'newMark'];
const leaseScript = lua(import.meta.url, './lease.lua', leaseArgs);
const releaseScript = lua(import.meta.url, './release.lua', ['namespaceName', 'fence', 'mark', 'count', 'doneAt']);
const appendArgs = ['fence', 'mark', 'count', 'doneAt', 'gapUntilAgoMs', 'windowMs', 'publishedMax'];
const appendScript = lua(import.meta.url, './append.lua', appendArgs);
const clockScript = lua(import.meta.url, './clock.lua');

/** How far the log is: behind `place`, and everything said longer than `doneAgoMs` ago is in it. */
export interface Done {
  readonly place: TapePlace;
  readonly doneAgoMs: number;
}

export type Taken =
  | { readonly taken: false; readonly freeInMs: number }
  /** `done` is absent where nobody has ever appended, or the store was emptied. */
  | { readonly taken: true; readonly done: Done | undefined };

/**
 * Redis' clock is a wall clock and ours is not: on a busy virtual machine the one moved against the other by 8 ms in ten
 * seconds, and the last answer is at most a few seconds old.
 */
const slewMs = 10;

/** The right to append what is PUBLISHed into one namespace: held by one daemon at a time, checked in every append. */
export class IngressLease {
  readonly #namespace: Namespace;
  readonly #leaseMs: number;
  readonly #windowMs: number;
  #marks = 0;
  /** A moment of Redis' clock, and one of ours at which it was past. */
  #anchor: { readonly redis: number; readonly own: number } | undefined;
  /** Empty: not ours. */
  fence = '';

  constructor(namespace: Namespace, settings: { readonly leaseMs: number; readonly publishWindowMs: number }) {
    this.#namespace = namespace;
    this.#leaseMs = settings.leaseMs;
    this.#windowMs = settings.publishWindowMs;
  }

  /**
   * `agoMs` ago by Redis' clock, or a little earlier: what counts as done must never come out later than it was, or a
   * standby drops what it should append. So it is reckoned from the last answer of Redis and not from when a script
   * runs, which on a busy day is seconds after it was sent.
   */
  atMs(agoMs: number): number {
    const { redis, own } = this.#anchor!;
    return Math.floor(redis + performance.now() - own - agoMs) - slewMs;
  }

  get held(): boolean {
    return this.fence !== '';
  }

  /** `doneAgoMs`: since when the caller listens without a break. */
  async take(doneAgoMs: number): Promise<Taken> {
    const asked = performance.now();
    if (!this.#anchor) this.#sawTime(await this.#namespace.read<string>(clockScript));
    doneAgoMs += performance.now() - asked;
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
      this.atMs(doneAgoMs),
      gapUntilAgoMs,
      this.#windowMs,
      publishedMax,
    ];
    const time = await this.#namespace.call<string | number>(appendScript, [...head, ...args]);
    if (time === 0) this.fence = '';
    else this.#sawTime(time);
    return time !== 0;
  }

  async release({ place, doneAgoMs }: Done): Promise<void> {
    const { fence } = this;
    this.fence = '';
    const args = [this.#namespace.name, fence, place.mark, place.count, this.atMs(doneAgoMs)];
    await this.#namespace.call(releaseScript, args);
  }

  async #ask(fence: string, { place, doneAgoMs }: Done): Promise<readonly [number, string, string, string, string]> {
    const { mark, count } = place;
    const args = [this.#namespace.name, fence, this.#leaseMs, mark, count, this.atMs(doneAgoMs), ++this.#marks];
    type Reply = [number, string, string, string, string, string];
    const [taken, holder, reached, behind, agoMs, time] = await this.#namespace.call<Reply>(leaseScript, args);
    this.#sawTime(time);
    return [taken, holder, reached, behind, agoMs];
  }

  #sawTime(time: string | number): void {
    this.#anchor = { redis: Number(time), own: performance.now() };
  }
}
