import type { Plan } from './line.js';

export type Size = 'full' | 'quick' | 'smoke';

const load = { tasks: 30_000, inFlight: 100, batch: 50, payloadBytes: 200 } as const;

const full: Plan = {
  load,
  rounds: 7,
  latencySamples: 300,
  backlog: 10_000,
  memoryTasks: 100_000,
  subscribers: 1000,
  fanOutEvents: 300,
  fanOutBurstEvents: 3000,
  firstConnections: 1000,
  idleConnections: 5000,
  stoppedForMs: 8000,
  handOffs: 60,
  lockPairs: 20_000,
  lockWaiters: 500,
  lockChecks: 1000,
  limitTakes: 30_000,
};

export const plans: Readonly<Record<Size, Plan>> = {
  full,
  quick: {
    ...full,
    load: { ...load, tasks: 10_000 },
    rounds: 3,
    latencySamples: 150,
    memoryTasks: 20_000,
    fanOutEvents: 150,
    stoppedForMs: 4000,
    handOffs: 30,
    lockPairs: 5000,
    limitTakes: 10_000,
  },
  /** Whether every line runs; its figures say nothing. */
  smoke: {
    load: { ...load, tasks: 500 },
    rounds: 1,
    latencySamples: 10,
    backlog: 500,
    memoryTasks: 500,
    subscribers: 20,
    fanOutEvents: 20,
    fanOutBurstEvents: 100,
    firstConnections: 10,
    idleConnections: 50,
    stoppedForMs: 200,
    handOffs: 4,
    lockPairs: 100,
    lockWaiters: 20,
    lockChecks: 10,
    limitTakes: 200,
  },
};
