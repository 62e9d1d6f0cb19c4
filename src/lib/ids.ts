import { randomBytes } from 'node:crypto';

const alphabet = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_';

// Random bytes are drawn a page at a time: one call of the generator for every id costs more than the id.
let pool = randomBytes(4096);
let used = 0;

/** A random id of 16 characters (96 bits) that needs no escape in JSON, URLs or shells' words. */
export function newId(): string {
  if (used + 16 > pool.length) {
    pool = randomBytes(4096);
    used = 0;
  }
  let id = '';
  for (let i = 0; i < 16; i++) id += alphabet[pool[used + i]! & 63];
  used += 16;
  return id;
}
