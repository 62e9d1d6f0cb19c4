const aborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')!.get!;

/** After a freeze a handler's next line may come before any timer of ours: asking whether it is aborted is checking. */
export function checkedSignal({ signal }: AbortController, check: () => void): AbortSignal {
  const get = (): boolean => {
    check();
    return aborted.call(signal);
  };
  return Object.defineProperty(signal, 'aborted', { get });
}

/** Calls `then` at the abort, not before; answers how to take it off. */
export function onAbort(signal: AbortSignal | undefined, then: () => void): () => void {
  if (!signal) return nothing;
  signal.addEventListener('abort', then, { once: true });
  return () => signal.removeEventListener('abort', then);
}

const nothing = (): void => {};
