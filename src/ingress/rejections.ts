import { oneLine } from '../feed/published.js';
import type { Rejection } from './message.js';

/** Events `ingress.rejected` a second and namespace; what is beyond is counted and told by the next one as `more`. */
const rejectionsMax = 10;
const channelChars = 300;

/** What becomes of messages that are no events. A flood of garbage must not flood the log: it has a rate of its own. */
export class Rejections {
  #second = Number.NEGATIVE_INFINITY;
  #told = 0;
  #more = 0;

  /** An item of append.lua, or nothing if this second has had its share. The payload is in none of it. */
  argsOf(channel: string, reason: Rejection, bytes: number, now: number): string[] {
    if (now - this.#second >= 1000) {
      this.#second = now;
      this.#told = 0;
    }
    if (++this.#told > rejectionsMax) {
      this.#more++;
      return [];
    }
    const short = channel.slice(0, channelChars).toWellFormed();
    const data = { channel: short, reason, bytes, ...(this.#more > 0 ? { more: this.#more } : {}) };
    this.#more = 0;
    return ['r', JSON.stringify(short), oneLine(JSON.stringify(data)), '', '', '', '', ''];
  }
}
