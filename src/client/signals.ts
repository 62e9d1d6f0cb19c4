import type { Client } from './client.js';
import type { StopOptions } from './worker.js';

export interface SignalOptions extends StopOptions {
  signals?: readonly NodeJS.Signals[];
}

/**
 * Closes the client gracefully on SIGTERM or SIGINT. A second signal finds the default behaviour again, so an impatient
 * Ctrl-C ends the process. Never installed by itself: a library does not own its process. Answers how to take it off.
 */
export function stopOnSignals(
  client: Pick<Client, 'close'>,
  { signals = ['SIGTERM', 'SIGINT'], ...options }: SignalOptions = {},
): () => void {
  const remove = (): void => {
    for (const signal of signals) process.removeListener(signal, stop);
  };
  const stop = (): void => {
    remove();
    void client.close(options);
  };
  for (const signal of signals) process.once(signal, stop);
  return remove;
}
