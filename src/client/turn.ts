/**
 * Runs `run` once, when the current turn has run dry. A microtask alone would come too early: the answers of one
 * message wake a hundred awaiting loops, each some microtasks deep, and what they ask next belongs in one line. A tick
 * asked for inside a microtask comes after the last of them and still before any I/O.
 */
export class Turn {
  private armed = false;
  private readonly run: () => void;

  constructor(run: () => void) {
    this.run = run;
  }

  arm(): void {
    if (this.armed) return;
    this.armed = true;
    queueMicrotask(this.defer);
  }

  private readonly defer = (): void => process.nextTick(this.fire);

  private readonly fire = (): void => {
    this.armed = false;
    this.run();
  };
}
