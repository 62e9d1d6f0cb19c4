import type { Socket } from './socket.js';

/**
 * Notices a link that is dead without saying so: TCP may take a quarter of an hour. Silence of `quietMs` is answered by
 * a ping, as much again by cutting the socket, so that resuming can begin while the session still lives.
 */
export class Keepalive {
  private timer: NodeJS.Timeout | undefined;
  private isPaused = false;

  start(socket: Socket, quietMs: number): void {
    this.stop();
    this.isPaused = false;
    const everyMs = quietMs / 4;
    let wokenAt = performance.now();
    this.timer = setInterval(() => {
      const now = performance.now();
      const isLate = now - wokenAt > 2 * everyMs;
      wokenAt = now;
      // We slept ourselves: what came meanwhile has not been read yet.
      if (isLate || this.isPaused) return;
      const silentMs = now - socket.heardAt;
      if (silentMs > 2 * quietMs) socket.terminate();
      else if (silentMs > quietMs) socket.ping();
    }, everyMs);
    this.timer.unref();
  }

  /** Not reading is not silence. */
  paused(isPaused: boolean): void {
    this.isPaused = isPaused;
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
