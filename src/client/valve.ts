export interface ValvePorts {
  pause(): void;
  resume(): void;
  /** True while answers are awaited on the socket, or work may come over it. */
  isNeeded(): boolean;
  /** Ends the cursor on the daemon and calls back when it has, and nothing on its way can make another one. */
  stop(done: () => void): void;
  /** Begins it again from our position. */
  start(): void;
}

/** Longer than this nobody lets a socket stand: pings want their answer. */
const pauseMaxMs = 1000;

/**
 * Halts the feed while a subscription is full. At first the socket is simply not read. But the socket carries answers
 * and work as well: a loop over events that awaits a call would wait for ever, and a lease would lapse. So as soon as
 * anything else is wanted from it, or a second has passed, the daemon's cursor is ended instead, what is still on its
 * way is dropped unseen, and when there is room the cursor begins again from our position: the log is the buffer.
 */
export class Valve {
  private readonly ports: ValvePorts;
  private readonly full = new Set<object>();
  private state: 'flowing' | 'paused' | 'stopping' | 'stopped' = 'flowing';
  private timer: NodeJS.Timeout | undefined;

  constructor(ports: ValvePorts) {
    this.ports = ports;
  }

  /** Feed lines that come now are not ours any more. */
  get isStopped(): boolean {
    return this.state === 'stopping' || this.state === 'stopped';
  }

  shut(who: object): void {
    this.full.add(who);
    if (this.state !== 'flowing') return;
    if (this.ports.isNeeded()) {
      this.stop();
      return;
    }
    this.state = 'paused';
    this.ports.pause();
    this.timer = setTimeout(() => this.needed(), pauseMaxMs);
    this.timer.unref();
  }

  open(who: object): void {
    if (!this.full.delete(who) || this.full.size > 0) return;
    if (this.state === 'paused') this.unpause();
    else if (this.state === 'stopped') this.start();
  }

  needed(): void {
    if (this.state !== 'paused') return;
    this.unpause();
    this.stop();
  }

  /** Something was asked about the cursor while it is halted: it begins again after that was answered. */
  extend(): void {
    if (this.state === 'stopped') this.stop();
  }

  /** A new socket: it is read, and has no cursor yet. */
  connected(): void {
    clearTimeout(this.timer);
    this.state = this.full.size > 0 ? 'stopped' : 'flowing';
  }

  end(): void {
    if (this.state === 'paused') this.unpause();
    this.full.clear();
  }

  private unpause(): void {
    clearTimeout(this.timer);
    this.state = 'flowing';
    this.ports.resume();
  }

  private stop(): void {
    this.state = 'stopping';
    this.ports.stop(() => {
      if (this.state !== 'stopping') return;
      this.state = 'stopped';
      if (this.full.size === 0) this.start();
    });
  }

  private start(): void {
    this.state = 'flowing';
    this.ports.start();
  }
}
