import type { TapEvent } from '../tap.js';

/** A reservation as the log tells it; one that was granted at once is told of only if it is lost. */
export interface Told {
  readonly limit: string;
  readonly agent: string;
  state: 'waiting' | 'granted' | 'waitEnded' | 'lost';
  /** When a wait became a grant, by the clock of the log. */
  grantedAt?: number;
  fence?: number;
  lostAt?: number;
  /** What counts as spent by its loss. */
  cost?: Readonly<Record<string, number>>;
  /** Lost with its socket: work goes back after the grace, earlier than its session would end. */
  early?: boolean;
  waitsFrom?: number;
  waitsTo?: number;
}

/** Every wait ends exactly once, in a grant or otherwise; what is lost was granted, and is lost once. */
export function replayed(events: readonly TapEvent[]): { problems: string[]; told: ReadonlyMap<string, Told> } {
  const told = new Map<string, Told>();
  const problems: string[] = [];
  for (const { type, data, at, offset } of events) {
    const word = type.startsWith('limit.') ? type.slice('limit.'.length) : '';
    if (!['waiting', 'granted', 'waitEnded', 'lost'].includes(word)) continue;
    const { limit, agent, reservation } = data;
    const known = told.get(reservation);
    const before = known?.state;
    const wrong =
      word === 'waiting'
        ? before !== undefined
        : word === 'lost'
          ? before !== undefined && before !== 'granted'
          : before !== 'waiting';
    if (wrong) problems.push(`${type} at ${offset}: ${agent}'s ${reservation} was ${before ?? 'not there'}`);
    const one: Told = known ?? { limit, agent, state: 'waiting' };
    told.set(reservation, one);
    one.state = word as Told['state'];
    if (word === 'waiting') one.waitsFrom = at;
    else if (word === 'lost')
      Object.assign(one, { lostAt: at, early: data.reason === 'disconnected', cost: data.cost });
    else one.waitsTo = at;
    if (word === 'granted') Object.assign(one, { grantedAt: at, fence: data.fence });
  }
  for (const [reservation, { state, agent, limit }] of told) {
    if (state === 'waiting') problems.push(`at the end ${agent}'s ${reservation} still waits for ${limit}`);
  }
  return { problems, told };
}
