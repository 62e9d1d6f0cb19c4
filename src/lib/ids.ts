import { randomBytes } from 'node:crypto';

// Random bytes are drawn a page at a time: one call of the generator for every id costs more than the id.
const bytes = 12;
let pool = randomBytes(4096);
let used = 0;

/** A random id of 16 characters (96 bits) that needs no escape in JSON, URLs or shells' words. */
export function newId(): string {
  if (used + bytes > pool.length) {
    pool = randomBytes(4096);
    used = 0;
  }
  const id = pool.toString('base64url', used, used + bytes);
  used += bytes;
  return id;
}
