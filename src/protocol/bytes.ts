import { Refusal } from '../errors.js';
import { utf8Bytes } from './primitives.js';

/** Refuses a text of more bytes than its bound, in the words of its field. */
export function checkBytes(name: string, text: string | undefined, max: number): void {
  // Every UTF-16 unit is at most three bytes: most texts are small enough to know without counting.
  if (text === undefined || text.length * 3 <= max) return;
  const bytes = utf8Bytes(text);
  if (bytes > max)
    throw new Refusal('TOO_LARGE', `${name} has ${bytes} bytes, at most ${max} are taken`, { details: { bytes, max } });
}
