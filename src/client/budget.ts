import { Refusal } from '../errors.js';

/** What the client may have unanswered, in flight and waiting for a connection together. */
export class Budget {
  private count = 0;
  private bytes = 0;
  private readonly countMax: number;
  private readonly bytesMax: number;

  constructor(countMax: number, bytesMax: number) {
    this.countMax = countMax;
    this.bytesMax = bytesMax;
  }

  /** Takes room for one call, or says why there is none. */
  take(bytes: number): Refusal | undefined {
    if (this.count >= this.countMax) return full('pendingMax', this.countMax);
    // A call larger than the whole budget may pass alone: its own bound is the line.
    if (this.count > 0 && this.bytes + bytes > this.bytesMax) return full('pendingBytesMax', this.bytesMax);
    this.count++;
    this.bytes += bytes;
    return undefined;
  }

  give(bytes: number): void {
    this.count--;
    this.bytes -= bytes;
  }

  get pending(): number {
    return this.count;
  }
}

function full(bound: string, max: number): Refusal {
  return new Refusal('LIMIT', `too much is unanswered (${bound} ${max}); wait for answers first`, {
    details: { bound, max },
  });
}
