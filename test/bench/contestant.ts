import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BenchDaemon, cpuSeconds, startDaemon } from './daemon.js';
import { type BenchRedis, startRedis } from './redis-server.js';
import type { Answer, Ask, Load, Side } from './side.js';

export type Name = 'bullmq' | 'signalbox';

/** CPU seconds by process: unlike rates they hardly depend on who else uses the machine. */
export interface Cpu {
  readonly client: number;
  readonly redis: number;
  readonly daemon: number;
}

type Verbs = { [Verb in keyof Side]: (...args: Parameters<Side[Verb]>) => ReturnType<Side[Verb]> };

/** One side with all its processes: a Redis of its own, its driver, and for Signalbox the daemon. */
export class Contestant {
  readonly name: Name;
  readonly redis: BenchRedis;
  readonly daemon: BenchDaemon | undefined;
  readonly #driver: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  #lastId = 0;

  private constructor(name: Name, redis: BenchRedis, daemon: BenchDaemon | undefined, driver: ChildProcess) {
    this.name = name;
    this.redis = redis;
    this.daemon = daemon;
    this.#driver = driver;
    driver.on('message', (answer: Answer) => this.#settle(answer));
    driver.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the ${name} driver ended with ${code}`));
    });
  }

  static async start(name: Name, profileDir: string | undefined): Promise<Contestant> {
    const redis = await startRedis();
    const daemon = name === 'signalbox' ? await startDaemon(redis.path, profileDir) : undefined;
    const execArgv = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}/${name}-client`];
    const driver = fork(fileURLToPath(new URL('./driver.js', import.meta.url)), [name], { execArgv });
    const contestant = new Contestant(name, redis, daemon, driver);
    await contestant.ask('open', { redisPath: redis.path, ...(daemon ? { url: daemon.url } : {}) });
    return contestant;
  }

  ask<Verb extends keyof Side>(verb: Verb, ...args: Parameters<Side[Verb]>): ReturnType<Verbs[Verb]> {
    return this.#send(verb, args) as ReturnType<Verbs[Verb]>;
  }

  async cpu(): Promise<Cpu> {
    const client = (await this.#send('cpu', [])) as number;
    return { client, redis: cpuSeconds(this.redis.pid), daemon: this.daemon ? cpuSeconds(this.daemon.pid) : 0 };
  }

  /** What Redis was busy with, beside the CPU profiles of the other processes. */
  async profile(dir: string): Promise<void> {
    const { client } = this.redis;
    writeFileSync(
      join(dir, `${this.name}-redis.txt`),
      `${await client.info('cpu')}${await client.info('commandstats')}`,
    );
  }

  async stop(): Promise<void> {
    await this.ask('close').catch(() => {});
    if (this.#driver.exitCode === null) {
      const gone = once(this.#driver, 'exit');
      this.#driver.disconnect();
      await gone;
    }
    await this.daemon?.stop();
    await this.redis.stop();
  }

  #send(verb: Ask['verb'], args: readonly unknown[]): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#driver.send({ id, verb, args } satisfies Ask);
    });
  }

  #settle({ id, value, error }: Answer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new Error(`${this.name}: ${error}`));
  }
}

export type { Load };
