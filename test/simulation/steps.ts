import type { Any } from './calls.js';

/** How the world of a history is made; drawn first, so that leaving steps out does not change it. */
export interface Setting {
  readonly daemons: number;
  readonly agents: readonly { readonly relay: boolean; readonly ttlMs: number; readonly tenant: string }[];
  readonly watchers: number;
  readonly refundsMax: number;
  /** Most events in the log: small ones make it trim under the watchers. */
  readonly eventsMax: number;
}

/**
 * One step. What it refers to (a task, a worker) is a number in [0, 1) that picks among those there are when it is run,
 * so that a history stays one when steps are left out. `gapMs` is the pause before it.
 */
export type Step = { readonly gapMs: number } & (
  | { readonly do: 'enqueue'; readonly agent: number; readonly queue: string; readonly tasks: readonly Any[] }
  | { readonly do: 'again'; readonly agent: number; readonly pick: number; readonly other: boolean }
  | {
      readonly do: 'work';
      readonly agent: number;
      readonly queue: string;
      readonly credit: number;
      readonly kinds?: readonly string[];
      readonly leaseMs?: number;
    }
  | { readonly do: 'credit'; readonly agent: number; readonly pick: number; readonly credit: number }
  | {
      readonly do: 'claim';
      readonly agent: number;
      readonly queue: string;
      readonly count: number;
      readonly waitMs: number;
      readonly kinds?: readonly string[];
      readonly leaseMs?: number;
    }
  | {
      readonly do: 'end';
      readonly agent: number;
      readonly pick: number;
      readonly how: EndHow;
      readonly count: number;
      readonly afterMs?: number;
      readonly next?: readonly Any[];
    }
  | { readonly do: 'repeat'; readonly agent: number; readonly pick: number }
  | { readonly do: 'cancel'; readonly agent: number; readonly pick: number; readonly graceMs?: number }
  | { readonly do: 'update'; readonly agent: number; readonly pick: number; readonly change: Any }
  | {
      readonly do: 'read';
      readonly agent: number;
      readonly pick: number;
      readonly what: 'get' | 'result' | 'list' | 'stats' | 'leases' | 'ping';
    }
  | { readonly do: 'pause'; readonly agent: number; readonly queue: string; readonly untilMs?: number }
  | { readonly do: 'unpause'; readonly agent: number; readonly queue: string }
  | {
      readonly do: 'purge' | 'redrive';
      readonly agent: number;
      readonly queue: string;
      readonly state?: string;
      readonly pick?: number;
    }
  | { readonly do: 'revoke'; readonly agent: number; readonly pick: number; readonly what: 'task' | 'session' }
  | { readonly do: 'leave'; readonly agent: number; readonly how: 'close' | 'sessionClose' | 'cut' | 'kill' }
  | { readonly do: 'move'; readonly agent: number; readonly daemon: number }
  | { readonly do: 'freeze'; readonly agent: number; readonly ms: number }
  | { readonly do: 'watch'; readonly watcher: number; readonly how: 'cut' | 'close' | 'move'; readonly daemon: number }
  | { readonly do: 'publish'; readonly agent: number; readonly events: readonly Any[]; readonly by: 'wire' | 'redis' }
  | {
      readonly do: 'fault';
      readonly fault: FaultName;
      readonly at: number;
      readonly ms: number;
      readonly delayMs: number;
    }
);

export type EndHow =
  | 'complete'
  | 'fail'
  | 'failForGood'
  | 'release'
  | 'progress'
  | 'renew'
  | 'completeAndEnqueue'
  | 'zombie';

export type FaultName =
  | 'agentCut'
  | 'agentStallUp'
  | 'agentStallDown'
  | 'agentHole'
  | 'agentSwallow'
  | 'agentDelay'
  | 'agentLose'
  | 'redisCut'
  | 'redisStallUp'
  | 'redisStallDown'
  | 'redisHole'
  | 'redisSwallow'
  | 'redisDelay'
  | 'redisLose'
  | 'daemonKill'
  | 'daemonFreeze'
  | 'daemonStop'
  | 'redisKill'
  | 'redisRestart'
  | 'redisWipe'
  | 'redisRewind'
  | 'clientKill'
  | 'scriptFlush'
  | 'clockAhead'
  | 'clockBack';
