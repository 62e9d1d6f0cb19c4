import { filter, map, type Observable, scan } from 'rxjs';
import type { LogBatch } from '../src/redis/log-entry.js';
import { ownEvents } from './operators/own-events.js';

/** What one queue with admission looked like at a moment (milliseconds, Redis' clock). */
export interface Sample {
  readonly queue: string;
  readonly at: number;
  /** The level it has. */
  readonly level: number;
  readonly depth: number;
  readonly oldestMs: number;
  /** Completed a second. */
  readonly rate: number;
  /** Active tasks by the credit of all workers; 0 without workers. */
  readonly utilisation: number;
  /** How far this daemon is behind in reading the log. */
  readonly lagMs: number;
  readonly bounds: Bounds;
}

export interface Bounds {
  readonly low: number;
  readonly high: number;
  readonly critical: number;
  readonly minRate: number;
  readonly utilisation?: { readonly on: number; readonly off: number } | undefined;
}

/** The level below which the queue should not be, and what for. `seen`: the level that was looked at. */
export interface Floor {
  readonly queue: string;
  readonly level: number;
  readonly why: 'depth' | 'rate' | 'utilisation' | 'age' | 'lag';
  readonly seen: number;
}

/** A level is left when its cause is this share of the threshold, so that it does not flap there. */
const leave = 0.9;
/** A backlog is so old before the rate at which it is worked off is judged. */
const judgedAfterMs = 10_000;
const oldMs = 60_000;
const lateMs = 5_000;

interface State {
  readonly depth: number;
  /** Since when at least `low` wait. */
  readonly backlogAt: number | undefined;
  readonly slow: boolean;
  readonly busy: boolean;
  readonly old: boolean;
  readonly late: boolean;
}
const calm: State = { depth: 0, backlogAt: undefined, slow: false, busy: false, old: false, late: false };

/** On from `on`, off below `off`, and what it was between them. */
const side = (was: boolean, value: number, on: number, off: number): boolean => value >= (was ? off : on);

function depthLevel(before: number, depth: number, { low, high, critical }: Bounds): number {
  const thresholds = [0, low, high, critical];
  let level = 3;
  while (level > 0 && depth < thresholds[level]! * (level <= before ? leave : 1)) level--;
  return level;
}

function next(before: State, { at, level, depth, oldestMs, rate, utilisation, lagMs, bounds }: Sample): State {
  const isBacklog = side(before.backlogAt !== undefined, depth, bounds.low, bounds.low * leave);
  const backlogAt = isBacklog ? (before.backlogAt ?? at) : undefined;
  const isJudged = backlogAt !== undefined && at - backlogAt >= judgedAfterMs;
  return {
    // The enqueue script raises the level by itself; where it stands is where it falls from.
    depth: depthLevel(Math.max(before.depth, level), depth, bounds),
    backlogAt,
    slow: isJudged && rate < bounds.minRate * (before.slow ? 1 / leave : 1),
    busy:
      bounds.utilisation !== undefined && side(before.busy, utilisation, bounds.utilisation.on, bounds.utilisation.off),
    old: side(before.old, oldestMs, oldMs, oldMs * leave),
    late: side(before.late, lagMs, lateMs, lateMs * leave),
  };
}

function floorOf({ depth, slow, busy, old, late }: State, { queue, level: seen }: Sample): Floor {
  const causes = [
    ['depth', depth],
    ['rate', slow ? 2 : 0],
    ['utilisation', busy ? 2 : 0],
    ['age', old ? 1 : 0],
    ['lag', late ? 1 : 0],
  ] as const;
  const [why, level] = causes.reduce((most, cause) => (cause[1] > most[1] ? cause : most));
  return { queue, level, why, seen };
}

/**
 * The level of each queue, from its depth, its completion rate, the utilisation of its workers, the age of its oldest
 * task and our own lag. Each batch is all queues there are: one that is missing is forgotten.
 *
 *     samples$  --depth 95--depth 100--depth 95--depth 89--      low 100
 *     floors$   --0---------1----------1---------0---------
 */
export const floors$ = (samples$: Observable<readonly Sample[]>): Observable<readonly Floor[]> =>
  samples$.pipe(
    scan(
      ({ states }, samples) => {
        const after = new Map<string, State>();
        for (const sample of samples) after.set(sample.queue, next(states.get(sample.queue) ?? calm, sample));
        return { states: after, floors: samples.map((sample) => floorOf(after.get(sample.queue)!, sample)) };
      },
      { states: new Map<string, State>(), floors: [] as readonly Floor[] },
    ),
    map(({ floors }) => floors),
  );

/** The producers of a queue hear that its level has changed. */
export interface PressurePush {
  readonly kind: 'pressure';
  readonly queue: string;
  readonly level: number;
  readonly delayMs: number | undefined;
}

const types = new Set(['pressure.changed']);

/**
 *     batch$         --[pressure q 1]--[pressure q 3, pressure q 0]--
 *     pressurePush$  --[q 1]-----------[q 0]-------------------------
 *
 * Of several changes in one batch the last one is what holds.
 */
export const pressurePush$ = (batch$: Observable<LogBatch>): Observable<readonly PressurePush[]> =>
  batch$.pipe(
    ownEvents(types),
    map((events) => {
      const last = new Map<string, PressurePush>();
      for (const { data } of events) {
        const { queue, level, delayMs } = data as { queue: string; level: number; delayMs?: number };
        last.set(queue, { kind: 'pressure', queue, level, delayMs });
      }
      return [...last.values()];
    }),
    filter((pushes) => pushes.length > 0),
  );
