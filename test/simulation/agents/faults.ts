import type { Random } from '../random.js';

export type FaultName =
  | 'freeze'
  | 'killAgent'
  | 'cutAgent'
  | 'loseAgent'
  | 'move'
  | 'killDaemon'
  | 'stopDaemon'
  | 'freezeDaemon'
  | 'cutRedis'
  | 'stallRedis'
  | 'killRedis'
  | 'flush';

export interface Fault {
  readonly name: FaultName;
  readonly gapMs: number;
  /** Of the agent or the daemon it is about. */
  readonly number: number;
  readonly ms: number;
}

const weights: Readonly<Record<FaultName, number>> = {
  freeze: 8,
  killAgent: 3,
  cutAgent: 5,
  loseAgent: 6,
  move: 3,
  killDaemon: 2,
  stopDaemon: 1,
  freezeDaemon: 2,
  cutRedis: 2,
  stallRedis: 2,
  killRedis: 1,
  flush: 1,
};

export function drawFaults(random: Random, count: number, changed: Partial<typeof weights> = {}): Fault[] {
  return Array.from({ length: count }, () => ({
    name: random.weighted({ ...weights, ...changed }),
    gapMs: random.int(30, 500),
    number: random.int(0, 1000),
    ms: random.pick([50, 300, 1500, 2000]),
  }));
}
