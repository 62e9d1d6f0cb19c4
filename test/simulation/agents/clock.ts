/** The clock that agents print: the same in every process of the machine, and never set. Milliseconds. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** How far two clocks of one machine may drift apart between two looks at both. */
export const slackMs = 5;
const everyMs = 200;

/**
 * How an instant of the log, in whole milliseconds of Redis' clock, reads on the clock of the agents. The wall clock of a
 * busy virtual machine is pulled this way and that, by milliseconds in a history, so both are looked at all the time.
 */
export class LogClock {
  readonly #looks: { readonly wall: number; readonly offset: number }[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#look();
    this.#timer = setInterval(() => this.#look(), everyMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  read = (at: number): number => {
    let nearest = this.#looks[0]!;
    for (const look of this.#looks) if (Math.abs(look.wall - at) < Math.abs(nearest.wall - at)) nearest = look;
    return at + nearest.offset;
  };

  /** The smallest difference is the true one: the wall clock is cut to milliseconds, and we may be interrupted. */
  #look(): void {
    let offset = Number.POSITIVE_INFINITY;
    for (const until = now() + 1.5; now() < until; ) {
      const wall = Date.now();
      offset = Math.min(offset, now() - wall);
    }
    this.#looks.push({ wall: Date.now(), offset });
  }
}
