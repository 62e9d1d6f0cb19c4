import { Refusal, type WireError } from '../../errors.js';
import { reportFault } from '../probes.js';

// What a driver says of a lost or slow Redis where no command has put it in better words.
const away = /^stream isn't writeable/i;
// It was sent, or may have been.
const late = /^(command timed out|connection is closed|reached the max retries per request)/i;

/** Whatever a gate or a command threw, as it stands on the wire. Never throws itself. */
export function toWireError(error: unknown, where: string): WireError {
  if (error instanceof Refusal) return error.toWire();
  const message = error instanceof Error ? error.message : '';
  if (late.test(message)) return new Refusal('TIMEOUT').toWire();
  if (away.test(message)) return new Refusal('UNAVAILABLE').toWire();
  const ref = reportFault(where, error);
  return new Refusal('INTERNAL', undefined, { details: { ref } }).toWire();
}
