import type { FaultName } from './steps.js';

/** What there is to choose from, and how often each is chosen. */
export const queues = ['q1', 'q2'] as const;
export const kinds = ['a', 'b', 'c'] as const;
export const tenants = ['t1', 't2', 't3'] as const;
export const keys = ['k1', 'k2', 'k3', 'k4'] as const;

export const ops = {
  enqueue: 20,
  again: 4,
  work: 5,
  credit: 2,
  claim: 7,
  end: 30,
  repeat: 4,
  cancel: 4,
  update: 4,
  read: 5,
  pause: 1.5,
  unpause: 2,
  purge: 2,
  redrive: 3,
  revoke: 1,
  leave: 3,
  move: 2,
  freeze: 1,
  watch: 2,
  publish: 3,
  fault: 5,
} as const;

export const faults: Record<FaultName, number> = {
  agentCut: 3,
  agentStallUp: 2,
  agentStallDown: 2,
  agentHole: 2,
  agentSwallow: 4,
  agentDelay: 1,
  agentLose: 1.5,
  redisCut: 3,
  redisStallUp: 2,
  redisStallDown: 2,
  redisHole: 2,
  redisSwallow: 5,
  redisDelay: 1,
  redisLose: 1.5,
  daemonKill: 2,
  daemonFreeze: 2,
  daemonStop: 1,
  redisKill: 1.5,
  redisRestart: 1,
  redisWipe: 0.4,
  redisRewind: 0.4,
  clientKill: 2,
  scriptFlush: 1.5,
  clockAhead: 1,
  clockBack: 1,
};
