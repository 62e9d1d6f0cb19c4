import { channel } from 'node:diagnostics_channel';
import { newId } from '../lib/ids.js';

/** What the gateway tells whoever subscribes (metrics, log, traces). Nothing is built while nobody does. */
export const connectionProbe = channel('signalbox:connection');
export const commandProbe = channel('signalbox:command');
export const faultProbe = channel('signalbox:fault');

/** A connection was refused before it was one, opened, or closed. */
export type ConnectionEvent =
  | { readonly kind: 'refused'; readonly status: number; readonly reason: string; readonly address: string }
  | { readonly kind: 'opened'; readonly id: number; readonly address: string }
  | {
      readonly kind: 'closed';
      readonly id: number;
      readonly address: string;
      readonly how: string;
      readonly code: number;
      readonly reason: string;
      readonly session: string | undefined;
      readonly agent: string | undefined;
    };

/** One request was answered. `code` is `ok` or an error code; `name` is empty when there is no such op. */
export interface CommandEvent {
  readonly name: string;
  readonly code: string;
  readonly micros: number;
}

export function probeConnection(event: ConnectionEvent): void {
  if (connectionProbe.hasSubscribers) connectionProbe.publish(event);
}

/** A fault of ours. `ref` is what the client was told. */
export interface FaultEvent {
  readonly ref: string;
  readonly where: string;
  readonly error: unknown;
}

/** Runs what others gave us: whatever it throws is a fault of ours and ends neither the caller nor the process. */
export function guarded(where: string, run: () => void): void {
  try {
    run();
  } catch (error) {
    reportFault(where, error);
  }
}

/** Reports a fault and answers its ref. Without a subscriber it goes to stderr: a fault is never silent. */
export function reportFault(where: string, error: unknown): string {
  const ref = newId();
  if (faultProbe.hasSubscribers) faultProbe.publish({ ref, where, error } satisfies FaultEvent);
  else console.error(`signalbox: fault ${ref} in ${where}:`, error);
  return ref;
}
