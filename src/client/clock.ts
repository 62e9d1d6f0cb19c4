/**
 * A moment by two clocks. The monotonic one stands still while a laptop sleeps, the wall clock may be set: whichever
 * ran further counts, so that nobody believes to hold a thing longer than the daemon does.
 */
export interface Moment {
  readonly mono: number;
  readonly wall: number;
}

export const now = (): Moment => ({ mono: performance.now(), wall: Date.now() });

export const elapsedMs = (since: Moment): number => Math.max(performance.now() - since.mono, Date.now() - since.wall);
