import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Child } from './child.js';
import { type BenchDaemon, startDaemon } from './daemon.js';
import { cpuSeconds } from './process.js';
import { type BenchRedis, startRedis } from './redis-server.js';
import type { Name, Side, Subject } from './side.js';

/** CPU seconds by process: unlike rates they hardly depend on who else uses the machine. */
export interface Cpu {
  readonly client: number;
  readonly redis: number;
  readonly daemon: number;
}

/** One side with all its processes: a Redis of its own, its driver, and for Signalbox the daemon. */
export class Contestant {
  readonly name: Name;
  readonly #redis: BenchRedis | undefined;
  readonly #daemon: BenchDaemon | undefined;
  readonly #driver: Child<Side>;

  private constructor(name: Name, redis: BenchRedis | undefined, daemon: BenchDaemon | undefined, driver: Child<Side>) {
    this.name = name;
    this.#redis = redis;
    this.#daemon = daemon;
    this.#driver = driver;
  }

  static async start(name: Name, subject: Subject, profileDir: string | undefined): Promise<Contestant> {
    const redis = name === 'ws' ? undefined : await startRedis();
    const daemon = name === 'signalbox' ? await startDaemon(redis!.path, profileDir) : undefined;
    const execArgv = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}/${name}-client`];
    const driver = new Child<Side>(name === 'signalbox' ? `signalbox-${subject}` : name, execArgv);
    const contestant = new Contestant(name, redis, daemon, driver);
    await driver.ask('open', { ...(redis ? { redisPath: redis.path } : {}), ...(daemon ? { url: daemon.url } : {}) });
    return contestant;
  }

  get ask(): Child<Side>['ask'] {
    return this.#driver.ask.bind(this.#driver) as Child<Side>['ask'];
  }

  get redis(): BenchRedis {
    if (!this.#redis) throw new Error(`${this.name} has no Redis`);
    return this.#redis;
  }

  /** The process that serves: the daemon, or for a raw server the driver. */
  get server(): number {
    return this.#daemon?.pid ?? this.#driver.pid;
  }

  cpu(): Cpu {
    const of = (process: { readonly pid: number } | undefined): number => (process ? cpuSeconds(process.pid) : 0);
    return { client: of(this.#driver), redis: of(this.#redis), daemon: of(this.#daemon) };
  }

  /** What `run` answers, and the CPU that all processes of the side spent on it. */
  async spending<T>(run: () => Promise<T>): Promise<{ value: T; cpu: Cpu }> {
    const before = this.cpu();
    const value = await run();
    const after = this.cpu();
    const cpu = {
      client: after.client - before.client,
      redis: after.redis - before.redis,
      daemon: after.daemon - before.daemon,
    };
    return { value, cpu };
  }

  /** What Redis was busy with is told from here on. */
  async beginProfile(): Promise<void> {
    await this.#redis?.client.config('RESETSTAT');
  }

  /** What Redis was busy with, beside the CPU profiles of the other processes. */
  async profile(dir: string): Promise<void> {
    if (!this.#redis) return;
    const { client } = this.#redis;
    writeFileSync(
      join(dir, `${this.name}-redis.txt`),
      `${await client.info('cpu')}${await client.info('commandstats')}`,
    );
  }

  async stop(): Promise<void> {
    await this.#driver.ask('close').catch(() => {});
    await this.#driver.stop();
    await this.#daemon?.stop();
    await this.#redis?.stop();
  }
}
