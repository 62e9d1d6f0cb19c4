/** Full jitter: a random delay below a ceiling that doubles to its cap. A crowd that was cut together comes back spread. */
export class Backoff {
  private readonly baseMs: number;
  private readonly capMs: number;
  private tries = 0;

  constructor(baseMs: number, capMs: number) {
    this.baseMs = baseMs;
    this.capMs = capMs;
  }

  next(): number {
    const ceilingMs = Math.min(this.capMs, this.baseMs * 2 ** Math.min(this.tries++, 30));
    return Math.random() * ceilingMs;
  }

  reset(): void {
    this.tries = 0;
  }
}
