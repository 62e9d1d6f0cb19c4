/** Flushes up to this size are written out of one shared buffer. */
export const scratchBytes = 64 * 1024;

let shared = Buffer.allocUnsafeSlow(scratchBytes);

/**
 * Where a flush is put together. The kernel nearly always takes it all at once, and then the same memory serves the
 * next socket; a fresh buffer for every flush would be most of the garbage of the process.
 */
export const scratch = (): Buffer => shared;

/** The kernel did not take all of it: the socket holds on to this memory, the next flush gets another. */
export function abandonScratch(): void {
  shared = Buffer.allocUnsafeSlow(scratchBytes);
}
