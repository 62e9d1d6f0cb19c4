import type { Any } from './calls.js';
import { Random } from './random.js';

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
  | 'redisCut'
  | 'redisStallUp'
  | 'redisStallDown'
  | 'redisHole'
  | 'redisSwallow'
  | 'redisDelay'
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

export const queues = ['q1', 'q2'] as const;
const kinds = ['a', 'b', 'c'] as const;
const tenants = ['t1', 't2', 't3'] as const;
const keys = ['k1', 'k2', 'k3', 'k4'] as const;

const ops = {
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

const faults: Record<FaultName, number> = {
  agentCut: 3,
  agentStallUp: 2,
  agentStallDown: 2,
  agentHole: 2,
  agentSwallow: 4,
  agentDelay: 1,
  redisCut: 3,
  redisStallUp: 2,
  redisStallDown: 2,
  redisHole: 2,
  redisSwallow: 5,
  redisDelay: 1,
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

export function drawSetting(random: Random): Setting {
  return {
    daemons: random.int(1, 3),
    agents: Array.from({ length: random.int(2, 5) }, (_, i) => ({
      relay: i === 0 || random.chance(0.2),
      ttlMs: random.pick([700, 1200, 2500]),
      tenant: random.pick(tenants),
    })),
    watchers: 2,
    refundsMax: random.pick([1, 3]),
    eventsMax: random.pick([100_000, 100_000, 100_000, 300]),
  };
}

/** A whole history from a seed. `without`: no faults, for finding out whose fault something is. */
export function drawHistory(
  seed: number,
  steps: number,
  options: { readonly faults?: boolean } = {},
): { setting: Setting; steps: Step[] } {
  const random = new Random(seed);
  const setting = drawSetting(random);
  const drawer = new Drawer(random, setting);
  const list = Array.from({ length: steps }, () => drawer.step());
  return { setting, steps: options.faults === false ? list.filter((step) => step.do !== 'fault') : list };
}

class Drawer {
  readonly #random: Random;
  readonly #setting: Setting;
  #task = 0;

  constructor(random: Random, setting: Setting) {
    this.#random = random;
    this.#setting = setting;
  }

  step(): Step {
    const random = this.#random;
    // Mostly at once, sometimes with time for clocks to run.
    const gapMs = random.chance(0.1) ? random.int(50, 250) : random.int(0, 15);
    const name = random.weighted(ops);
    return { gapMs, ...(this[name] as () => object).call(this) } as Step;
  }

  #agent(): number {
    return this.#random.int(0, this.#setting.agents.length - 1);
  }

  #spec(): Any {
    const random = this.#random;
    const spec: Any = {
      task: `task-${this.#task++}`,
      payload: { v: 1, n: random.int(0, 9) },
      backoff: { kind: 'exponential', baseMs: 20, capMs: 200 },
    };
    const set = (name: string, part: number, make: () => unknown): void => {
      const value = random.maybe(part, make);
      if (value !== undefined) spec[name] = value;
    };
    set('key', 0.15, () => random.pick(keys));
    set('priority', 0.4, () => random.pick([0, 25, 50, 75, 100]));
    set('tenant', 0.4, () => random.pick(tenants));
    set('kind', 0.4, () => random.pick(kinds));
    set('delayMs', 0.15, () => random.int(1, 600));
    set('startByMs', 0.08, () => random.int(50, 800));
    set('deadlineMs', 0.1, () => random.int(50, 1500));
    set('timeoutMs', 0.1, () => random.int(50, 600));
    set('leaseMs', 0.1, () => random.int(100, 600));
    set('maxAttempts', 0.3, () => random.int(1, 3));
    // The key is one per payload here and there, so that repeats meet their own and others meet a conflict.
    if (spec.key && random.chance(0.5)) spec.payload = { v: 1, key: spec.key };
    return spec;
  }

  enqueue(): object {
    const random = this.#random;
    const tasks = Array.from({ length: random.chance(0.2) ? random.int(2, 12) : random.int(1, 3) }, () => this.#spec());
    return { do: 'enqueue', agent: this.#agent(), queue: random.pick(queues), tasks };
  }

  again(): object {
    return { do: 'again', agent: this.#agent(), pick: this.#random.next(), other: this.#random.chance(0.3) };
  }

  #takes(): object {
    const random = this.#random;
    const some = random.maybe(0.4, () => (random.chance(0.5) ? [random.pick(kinds)] : ['a', 'b']));
    const leaseMs = random.maybe(0.1, () => random.int(150, 600));
    return { ...(some ? { kinds: some } : {}), ...(leaseMs ? { leaseMs } : {}) };
  }

  work(): object {
    return {
      do: 'work',
      agent: this.#agent(),
      queue: this.#random.pick(queues),
      credit: this.#random.int(1, 4),
      ...this.#takes(),
    };
  }

  credit(): object {
    return { do: 'credit', agent: this.#agent(), pick: this.#random.next(), credit: this.#random.int(0, 5) };
  }

  claim(): object {
    const random = this.#random;
    return {
      do: 'claim',
      agent: this.#agent(),
      queue: random.pick(queues),
      count: random.int(1, 5),
      waitMs: random.pick([0, 0, 100, 400]),
      ...this.#takes(),
    };
  }

  end(): object {
    const random = this.#random;
    const how = random.weighted<EndHow>({
      complete: 12,
      fail: 4,
      failForGood: 1,
      release: 4,
      progress: 2,
      renew: 1,
      completeAndEnqueue: 2,
      zombie: 2,
    });
    const afterMs = random.maybe(0.3, () => random.int(1, 300));
    const next =
      how === 'completeAndEnqueue' ? [this.#spec(), ...(random.chance(0.5) ? [this.#spec()] : [])] : undefined;
    return {
      do: 'end',
      agent: this.#agent(),
      pick: random.next(),
      how,
      count: random.int(1, 3),
      ...(afterMs ? { afterMs } : {}),
      ...(next ? { next } : {}),
    };
  }

  repeat(): object {
    return { do: 'repeat', agent: this.#agent(), pick: this.#random.next() };
  }

  cancel(): object {
    const graceMs = this.#random.maybe(0.5, () => this.#random.int(0, 300));
    return {
      do: 'cancel',
      agent: this.#agent(),
      pick: this.#random.next(),
      ...(graceMs === undefined ? {} : { graceMs }),
    };
  }

  update(): object {
    const random = this.#random;
    const kind = random.weighted({ priority: 4, deadlineMs: 2, startByMs: 1, runIn: 2, both: 1 });
    const change: Any = {};
    if (kind === 'priority' || kind === 'both') change.priority = random.pick([0, 25, 50, 75, 100]);
    if (kind === 'deadlineMs') change.deadlineMs = random.int(50, 1000);
    if (kind === 'startByMs') change.startByMs = random.int(50, 1000);
    if (kind === 'runIn' || kind === 'both') change.runIn = random.int(-100, 400);
    return { do: 'update', agent: this.#agent(), pick: random.next(), change };
  }

  read(): object {
    const what = this.#random.pick(['get', 'result', 'list', 'stats', 'leases', 'ping', 'ping'] as const);
    return { do: 'read', agent: this.#agent(), pick: this.#random.next(), what };
  }

  pause(): object {
    const untilMs = this.#random.maybe(0.6, () => this.#random.int(20, 400));
    return { do: 'pause', agent: this.#agent(), queue: this.#random.pick(queues), ...(untilMs ? { untilMs } : {}) };
  }

  unpause(): object {
    return { do: 'unpause', agent: this.#agent(), queue: this.#random.pick(queues) };
  }

  purge(): object {
    const random = this.#random;
    const state = random.maybe(0.7, () =>
      random.pick(['ready', 'scheduled', 'completed', 'dead', 'cancelled', 'expired']),
    );
    const pick = random.maybe(0.6, () => random.next());
    return {
      do: 'purge',
      agent: this.#agent(),
      queue: random.pick(queues),
      ...(state ? { state } : {}),
      ...(pick === undefined ? {} : { pick }),
    };
  }

  redrive(): object {
    const random = this.#random;
    const state = random.maybe(0.5, () => random.pick(['dead', 'expired']));
    const pick = random.maybe(0.4, () => random.next());
    return {
      do: 'redrive',
      agent: this.#agent(),
      queue: random.pick(queues),
      ...(state ? { state } : {}),
      ...(pick === undefined ? {} : { pick }),
    };
  }

  revoke(): object {
    return {
      do: 'revoke',
      agent: this.#agent(),
      pick: this.#random.next(),
      what: this.#random.pick(['task', 'task', 'session']),
    };
  }

  leave(): object {
    return {
      do: 'leave',
      agent: this.#agent(),
      how: this.#random.weighted({ close: 2, sessionClose: 2, cut: 4, kill: 2 }),
    };
  }

  move(): object {
    return { do: 'move', agent: this.#agent(), daemon: this.#random.int(0, this.#setting.daemons - 1) };
  }

  freeze(): object {
    return { do: 'freeze', agent: this.#agent(), ms: this.#random.pick([150, 700, 2000]) };
  }

  watch(): object {
    const random = this.#random;
    return {
      do: 'watch',
      watcher: random.int(0, this.#setting.watchers - 1),
      how: random.pick(['cut', 'close', 'move']),
      daemon: random.int(0, this.#setting.daemons - 1),
    };
  }

  publish(): object {
    const random = this.#random;
    const events = Array.from({ length: random.int(1, 4) }, () => ({
      type: random.pick(['batch.started', 'batch.finished', 'note.made']),
      data: { n: random.int(0, 999) },
      ...(random.chance(0.5) ? { id: `e-${random.int(0, 40)}`, source: `/source/${random.int(0, 1)}` } : {}),
    }));
    return { do: 'publish', agent: this.#agent(), events, by: random.pick(['wire', 'wire', 'redis']) };
  }

  fault(): object {
    const random = this.#random;
    return {
      do: 'fault',
      fault: random.weighted(faults),
      at: random.next(),
      ms: random.pick([60, 250, 900]),
      delayMs: random.int(5, 60),
    };
  }
}
