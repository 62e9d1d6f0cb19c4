import type { Contestant, Cpu } from './contestant.js';
import type { Load, Subject } from './side.js';

/** How much of everything is measured. */
export interface Plan {
  readonly load: Load;
  readonly rounds: number;
  readonly latencySamples: number;
  /** Waiting tasks behind which rates are measured. */
  readonly backlog: number;
  readonly memoryTasks: number;
  readonly subscribers: number;
  /** Events a subscriber gets one by one, and in bursts of `load.batch`. */
  readonly fanOutEvents: number;
  readonly fanOutBurstEvents: number;
  /** So many come first: what a process needs once is there then, and what it had to spare is used. */
  readonly firstConnections: number;
  readonly idleConnections: number;
  /** How long a feed goes on for while some do not read it. */
  readonly stoppedForMs: number;
  readonly handOffs: number;
  readonly lockPairs: number;
  readonly lockWaiters: number;
  readonly lockChecks: number;
  readonly limitTakes: number;
}

/** What one round of one side gave. */
export interface Sample {
  readonly values: Readonly<Record<string, number>>;
  /** Tasks the CPU figures are divided by. */
  readonly tasks?: number;
  readonly cpu?: Cpu;
}

/** What is aimed at: a ratio of Signalbox to its rival, or an amount, and which side of it is good. */
export type Target = { readonly better: 'more' | 'less' } & ({ readonly ratio: number } | { readonly amount: number });

export interface Row {
  /** Of the values of a sample; a side that has none is left blank. */
  readonly value: string;
  readonly title: string;
  readonly unit: string;
  readonly target?: Target;
  /** Ratio to the same side's row `value` of line `line`: what a backlog costs, or a check; the table names it so. */
  readonly against?: { readonly line: string; readonly value: string; readonly ratio: number; readonly named: string };
}

export interface Line {
  readonly id: string;
  /** Says who stands beside Signalbox. */
  readonly subject: Subject;
  readonly rows: readonly Row[];
  readonly rounds?: number;
  /** False for what only a fresh process shows. */
  readonly warmUp?: false;
  /** Only when asked for. */
  readonly flag?: 'million';
  measure(side: Contestant, plan: Plan, round: number): Promise<Sample>;
}

/** The warm-up is round -1. */
export const firstRound = -1;
