import type { Any } from './calls.js';
import { Random } from './random.js';
import type { EndHow, Setting, Step } from './steps.js';
import { faults, keys, kinds, ops, queues, tenants } from './weights.js';

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
  #said = 0;

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
      data: { n: ++this.#said },
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
