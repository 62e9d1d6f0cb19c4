/** One operation: carried out at one instant between its question and its answer. */
export interface Op {
  readonly call: number;
  /** Infinity: nobody heard. It happened at any time since, or not at all. */
  readonly ret: number;
}

/** What a sequence of operations may do, one at a time. */
export interface Model<State, O extends Op> {
  readonly init: State;
  /** What `op` leaves behind; undefined: it cannot have been answered like that here. `open`: who has asked by then. */
  step(state: State, op: O, open: readonly O[]): State | undefined;
  /** The same text for states that nothing can tell apart. */
  key(state: State): string;
}

export interface Verdict<O> {
  readonly ok: boolean;
  /** Given up: neither found nor excluded within the bound. */
  readonly undecided: boolean;
  readonly states: number;
  /** Where the longest order ends: none of these can come next. */
  readonly stuck: readonly O[];
}

/**
 * Looks for one order of all operations that the model allows and that puts none before one that was over when it began
 * (Wing and Gong's search; Lowe's memory of what was tried: the same operations done and the same state lead nowhere
 * twice). Depth first in the order of the answers, which for a history without faults is nearly always right at once.
 */
export function linearize<State, O extends Op>(
  history: readonly O[],
  model: Model<State, O>,
  statesMax: number,
): Verdict<O> {
  const ops = [...history].sort((a, b) => a.call - b.call);
  const needed = ops.filter(({ ret }) => ret < Number.POSITIVE_INFINITY).length;
  const seen = new Set<string>();
  let deepest = -1;
  let stuck: readonly O[] = [];
  let undecided = false;

  /** Those of which one must be next: who asked before any other that is left was answered. */
  function candidates(done: bigint): number[] {
    const found: number[] = [];
    let firstRet = Number.POSITIVE_INFINITY;
    for (let i = 0; i < ops.length && ops[i]!.call <= firstRet; i++) {
      if ((done >> BigInt(i)) & 1n) continue;
      firstRet = Math.min(firstRet, ops[i]!.ret);
      found.push(i);
    }
    // Whoever was answered first is tried first: what may still wait is then there when somebody needs it to.
    return found.filter((i) => ops[i]!.call <= firstRet).sort((a, b) => ops[a]!.ret - ops[b]!.ret);
  }

  // Its own stack: a history may be longer than the stack of calls is deep.
  const stack: { done: bigint; count: number; state: State; next: number[]; open: O[] }[] = [];
  /** Answers whether everything that is known to have happened has its place. */
  function enter(done: bigint, count: number, state: State): boolean {
    if (count === needed) return true;
    const key = `${done.toString(36)}|${model.key(state)}`;
    if (seen.has(key)) return false;
    if (seen.size >= statesMax) {
      undecided = true;
      return false;
    }
    seen.add(key);
    const next = candidates(done);
    const open = next.map((i) => ops[i]!);
    if (count > deepest) [deepest, stuck] = [count, open];
    stack.push({ done, count, state, next, open });
    return false;
  }

  let ok = enter(0n, 0, model.init);
  while (!ok && stack.length > 0 && !undecided) {
    const top = stack.at(-1)!;
    const i = top.next.shift();
    if (i === undefined) {
      stack.pop();
      continue;
    }
    const op = ops[i]!;
    const state = model.step(top.state, op, top.open);
    if (state === undefined) continue;
    ok = enter(top.done | (1n << BigInt(i)), top.count + (op.ret < Number.POSITIVE_INFINITY ? 1 : 0), state);
  }
  return { ok, undecided: undecided && !ok, states: seen.size, stuck: ok ? [] : stuck };
}
