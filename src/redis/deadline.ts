/**
 * Settles as `promise` does, or rejects after `ms` or when `signal` aborts, whichever is first. What is then left of
 * the promise is nobody's business any more: its rejection is taken here.
 */
export function deadline<T>(promise: Promise<T>, ms: number, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const give = (error: Error): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      reject(error);
    };
    const aborted = (): void => give(new Error('stopped'));
    const timer = setTimeout(() => give(new Error(`timed out after ${ms} ms`)), ms);
    promise.then((value) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      resolve(value);
    }, give);
    if (signal?.aborted) aborted();
    else signal?.addEventListener('abort', aborted, { once: true });
  });
}

/** Resolves after `ms`, or at once when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
