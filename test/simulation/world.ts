import { cpSync, existsSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { type Settings, startDaemon, type TestDaemon } from '../support/daemon.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { FaultyLink } from './faults.js';
import type { Setting } from './steps.js';
import { Tap } from './tap.js';

export const namespace = 'default';

/** The settings of the daemons; every duration shrunk, so that a minute holds what is otherwise an hour. */
export const timing = {
  graceMs: 300,
  receiptMs: 300,
  cancelGraceMs: 200,
  keyWindowMs: 800,
  commandTimeoutMs: 600,
  maxAttempts: 3,
  backoffCapMs: 200,
};

/** One daemon and the two links to it that can fail. */
export interface Node {
  readonly toRedis: FaultyLink;
  readonly toDaemon: FaultyLink;
  daemon: TestDaemon | undefined;
  starting: Promise<void> | undefined;
}

/** Redis with an append-only file, one to three daemons, and faulty links between everything. */
export class World {
  readonly redis: TestRedis;
  readonly admin: Redis;
  readonly tap: Tap;
  readonly nodes: Node[] = [];
  readonly problems: string[] = [];
  /** When Redis lost acknowledged writes: what was asked before need not be there. */
  lostAt = 0;
  readonly #setting: Setting;
  readonly #more: Settings;
  readonly #dir: string;
  #snapshot: string | undefined;
  readonly #said: (() => string)[] = [];
  #stopping = false;
  #turn: Promise<void> = Promise.resolve();

  private constructor(redis: TestRedis, setting: Setting, more: Settings) {
    this.redis = redis;
    this.#setting = setting;
    this.#more = more;
    this.#dir = dirname(redis.path);
    // The one link without faults: it must come back by itself after every restart.
    this.admin = redis.client({ retryStrategy: () => 20, maxRetriesPerRequest: null });
    this.tap = new Tap(this.admin, namespace);
  }

  static async start(setting: Setting, more: Settings = {}): Promise<World> {
    const redis = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'everysec'] });
    const world = new World(redis, setting, more);
    try {
      await Promise.all(Array.from({ length: setting.daemons }, (_, i) => world.#node(i)));
      world.tap.start();
    } catch (error) {
      await world.stop();
      throw error;
    }
    return world;
  }

  #settings(): Settings {
    return {
      'session.graceMs': timing.graceMs,
      'session.receiptMs': timing.receiptMs,
      'queue.cancelGraceMs': timing.cancelGraceMs,
      'queue.refundsMax': this.#setting.refundsMax,
      'log.eventsMax': this.#setting.eventsMax,
      'redis.commandTimeoutMs': timing.commandTimeoutMs,
      'sweep.everyMs': 100,
      'gateway.heartbeatMs': 300,
      'gateway.positionEvery': 8,
      'ops.logLevel': 'info',
      ...this.#more,
    };
  }

  async #node(i: number): Promise<void> {
    const path = join(this.#dir, `link-${i}.sock`);
    const toRedis = await FaultyLink.open(this.redis.path, path);
    const toDaemon = await FaultyLink.open(0);
    const node: Node = { toRedis, toDaemon, daemon: undefined, starting: undefined };
    this.nodes[i] = node;
    await this.startNode(node);
  }

  /** Starts the node's daemon unless it runs. One that could not reach Redis in time has given up, and is started again. */
  async startNode(node: Node): Promise<void> {
    if (node.daemon || this.#stopping) return;
    node.starting ??= this.#launch(node).finally(() => {
      node.starting = undefined;
    });
    await node.starting;
  }

  async #launch(node: Node): Promise<void> {
    const path = join(this.#dir, `link-${this.nodes.indexOf(node)}.sock`);
    for (let attempt = 0; !node.daemon && !this.#stopping; attempt++) {
      const daemon = await startDaemon(path, this.#settings()).catch((error: Error) => {
        if (attempt === 3 || !error.message.includes('Redis')) throw error;
        return undefined;
      });
      if (daemon) this.#join(node, daemon);
    }
  }

  #join(node: Node, daemon: TestDaemon): void {
    node.daemon = daemon;
    node.toDaemon.target = Number(new URL(daemon.url).port);
    this.#said.push(() => daemon.output());
    daemon.process.on('exit', (code, signal) => {
      if (node.daemon === daemon) node.daemon = undefined;
      // Nothing from outside may end the process: only our own signals do.
      if (signal !== 'SIGKILL' && code !== 0)
        this.problems.push(`a daemon ended with ${code ?? signal}:\n${daemon.output().slice(-2000)}`);
    });
  }

  url(node: number): string {
    return `ws://127.0.0.1:${this.nodes[node % this.nodes.length]!.toDaemon.port}/v1/ws`;
  }

  /** Errors that a daemon met and should not have, whatever happened to its links. */
  faults(): string[] {
    const found = new Set<string>();
    for (const text of this.outputs()) {
      for (const [line] of text.matchAll(/^.*(TypeError|RangeError|ReferenceError|"msg":"a fault").*$/gm)) {
        found.add(`a daemon says: ${line.replace(/"time":"[^"]*",|"ref":"[^"]*",/g, '').slice(0, 700)}`);
      }
    }
    return [...found].slice(0, 5);
  }

  /** What all daemons of this history have said, those that ended included. */
  outputs(): string[] {
    return this.#said.map((output) => output());
  }

  async killNode(node: Node): Promise<void> {
    const { daemon } = node;
    node.daemon = undefined;
    if (!daemon) return;
    daemon.process.kill('SIGCONT');
    await daemon.kill();
  }

  /** SIGTERM: the drain. */
  async stopNode(node: Node): Promise<void> {
    const { daemon } = node;
    node.daemon = undefined;
    if (!daemon) return;
    daemon.process.kill('SIGCONT');
    const code = await Promise.race([daemon.stop(), wait(15_000, 'late' as const)]);
    if (code !== 0)
      this.problems.push(`a daemon that was asked to stop ended with ${code}:\n${daemon.output().slice(-2000)}`);
    if (code === 'late') await daemon.kill();
  }

  /** What is done to Redis itself is done one after the other. */
  alone(run: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(run);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async killRedis(downMs: number): Promise<void> {
    await this.redis.kill();
    await wait(downMs);
    await this.redis.restart();
  }

  /** Remembers what Redis has on its disk now, to come back to. */
  async snapshot(): Promise<void> {
    const copy = join(this.#dir, 'snapshot');
    rmSync(copy, { recursive: true, force: true });
    await this.#quiet(async () => cpSync(join(this.#dir, 'appendonlydir'), copy, { recursive: true }));
    this.#snapshot = copy;
  }

  /** A crash that loses acknowledged writes: all of them, or those since the snapshot. */
  async loseData(all: boolean): Promise<void> {
    const copy = all ? undefined : this.#snapshot;
    if (!all && !copy) return;
    await this.#quiet(async () => {
      await this.tap.poll();
      this.lostAt = Date.now();
      await this.redis.kill();
      const files = join(this.#dir, 'appendonlydir');
      rmSync(files, { recursive: true, force: true });
      if (copy && existsSync(copy)) cpSync(copy, files, { recursive: true });
      await this.redis.restart();
      this.lostAt = Date.now();
    });
  }

  /** Nobody writes while `run` looks: daemons get no answers, and nothing is lost on the way. */
  async #quiet(run: () => Promise<void>): Promise<void> {
    for (const { toRedis } of this.nodes) toRedis.stall('up', 'down');
    await wait(20);
    try {
      await run();
    } finally {
      for (const { toRedis } of this.nodes) {
        toRedis.cut();
        toRedis.heal();
      }
    }
  }

  /**
   * TIME makes a step, as the scripts see it: what they remember of it is moved instead of the machine's clock. The lease
   * clock must go on as if nothing had happened.
   */
  async stepClock(ms: number): Promise<void> {
    const script = `if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HINCRBY', KEYS[1], 'seen', ARGV[1]); redis.call('HINCRBY', KEYS[1], 'skew', ARGV[1]) end`;
    await this.admin.eval(script, 1, `sb:{${namespace}}:meta`, -ms);
  }

  /** Every link whole, every process running, Redis back. */
  async heal(): Promise<void> {
    for (const node of this.nodes) {
      node.toRedis.heal();
      node.toDaemon.heal();
      node.daemon?.process.kill('SIGCONT');
    }
    await this.admin.ping();
    await Promise.all(this.nodes.map((node) => node.starting ?? this.startNode(node)));
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.tap.stop();
    await Promise.all(this.nodes.map((node) => node.starting?.catch(() => undefined)));
    await Promise.all(this.nodes.map((node) => this.killNode(node)));
    await Promise.all(this.nodes.flatMap(({ toRedis, toDaemon }) => [toRedis.close(), toDaemon.close()]));
    await this.redis.stop();
  }
}
