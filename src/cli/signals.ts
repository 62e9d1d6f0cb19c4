const doubledMs = 1000;
const patienceMs = 10_000;

/**
 * The first SIGTERM, SIGINT or SIGHUP asks for an orderly end. Ctrl-C at a terminal reaches npm and us, and npm passes
 * it on as well: what comes within a second is the same signal again. Only somebody who waited for a while and asks
 * again wants it to end at all costs.
 */
export function onStopSignals(stop: (signal: NodeJS.Signals) => void, force: () => void): () => void {
  let firstAt: number | undefined;
  const heard = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (firstAt === undefined) {
      firstAt = now;
      stop(signal);
    } else if (now - firstAt >= patienceMs) force();
    else if (now - firstAt >= doubledMs) {
      process.stderr.write(
        `still stopping; again in ${Math.ceil((patienceMs - now + firstAt) / 1000)} s ends it at once\n`,
      );
    }
  };
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, heard);
  return () => {
    for (const signal of signals) process.off(signal, heard);
  };
}
