/** What is known of the daemon at the moment of the question. */
export interface Facts {
  readonly redisAnswers: boolean;
  /** Without a break; 0 while it does not answer. */
  readonly redisForMs: number;
  readonly readers: readonly { readonly namespace: string; readonly ageMs: number; readonly deafMs: number }[];
  readonly loopLagMs: number;
  readonly draining: boolean;
}

export interface Verdict {
  readonly good: boolean;
  /** Empty when good. */
  readonly reasons: readonly string[];
}

/** Sessions live by renewals that leave several times a second; a loop this late cannot keep them alive. */
const loopLagMaxMs = 1000;

const verdict = (reasons: readonly string[]): Verdict => ({ good: reasons.length === 0, reasons });

/**
 * Whether a restart would help. A Redis that is away is no reason: the daemon waits for it, and one that is restarted
 * would wait for it too, without its connections.
 */
export function judgeHealth(facts: Facts): Verdict {
  const { loopLagMs } = facts;
  const late = loopLagMs > loopLagMaxMs ? [`the event loop is ${Math.round(loopLagMs)} ms late on average`] : [];
  return verdict([...deafReaders(facts), ...late]);
}

/** Whether clients should be sent here. */
export function judgeReadiness(facts: Facts): Verdict {
  const { draining, redisAnswers } = facts;
  return verdict([
    ...(draining ? ['the daemon is stopping'] : []),
    ...(redisAnswers ? [] : ['Redis does not answer']),
    ...judgeHealth(facts).reasons,
  ]);
}

/**
 * A reader is deaf when Redis answers, and has done so for long enough that the reader should have noticed; a moment
 * after Redis came back every reader is behind.
 */
function deafReaders({ readers, redisForMs }: Facts): string[] {
  return readers
    .filter(({ ageMs, deafMs }) => ageMs > deafMs && redisForMs > deafMs)
    .map(
      ({ namespace, ageMs }) =>
        `Redis answers, but the log of namespace ${namespace} was not read for ${Math.round(ageMs)} ms`,
    );
}
