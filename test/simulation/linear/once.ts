import type { Model, Op } from './search.js';

/** What was done under one once key. */
export type OnceOp = Op &
  (
    | { readonly what: 'begin'; readonly agent: string; readonly fence: number; readonly as: 'new' | 'unknown' }
    /** The end of what was begun under a fence: by its holder's word, or without one. */
    | {
        readonly what: 'close';
        readonly agent: string;
        readonly fence: number;
        readonly to: 'done' | 'new' | 'unknown';
        readonly value: string;
      }
    /** Told what became of it. */
    | { readonly what: 'answer'; readonly agent: string; readonly value: string }
    /** Told that somebody is at it. */
    | { readonly what: 'busy'; readonly agent: string }
  );

interface State {
  readonly state: 'new' | 'inProgress' | 'done' | 'unknown';
  readonly fence: number;
  readonly value: string;
  /** It came there then or later. */
  readonly since: number;
}

/** One at a time, under fences that rise; done is done for whoever asks, until it is forgotten `keepMs` later. */
export function onceModel(keepMs: number): Model<State, OnceOp> {
  return {
    init: { state: 'new', fence: 0, value: '', since: 0 },
    key: ({ state, fence }) => `${state} ${fence}`,
    step(now, op) {
      if (op.what === 'begin') {
        const isForgotten = now.state !== 'inProgress' && op.ret >= now.since + keepMs;
        const fits = now.state === op.as || (op.as === 'new' && isForgotten);
        return fits && op.fence > now.fence ? { ...now, state: 'inProgress', fence: op.fence } : undefined;
      }
      if (op.what === 'close') {
        if (now.state !== 'inProgress' || now.fence !== op.fence) return undefined;
        return { state: op.to, fence: op.fence, value: op.value, since: op.call };
      }
      if (op.what === 'answer') return now.state === 'done' && now.value === op.value ? now : undefined;
      return now.state === 'inProgress' ? now : undefined;
    },
  };
}
