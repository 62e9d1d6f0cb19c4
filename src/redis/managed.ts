import type { ChildProcess } from 'node:child_process';
import { existsSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { DirHeldError, DirLock } from '../lib/dir-lock.js';
import { makeDir } from '../lib/make-dir.js';
import { isRunning, type ProcessIdentity } from '../lib/process-identity.js';
import type { Service } from '../lib/service.js';
import { askServer } from './ask-server.js';
import {
  answers,
  endProcess,
  identityOfChild,
  type LaunchOptions,
  launch,
  runtimeSettings,
} from './managed-process.js';
import { readRecord, removeRecord, writeRecord } from './managed-record.js';
import { findServerBinary } from './server-binary.js';
import { prepareSocketDir, socketPath } from './socket-path.js';

export interface ManagedRedisOptions {
  readonly stateDir: string;
  readonly ephemeral: boolean;
  readonly binary?: string | undefined;
  /** maxmemory; 0: the smaller of 1 GiB and a quarter of the RAM. */
  readonly memoryBytes: number;
  readonly appendFsync: 'everysec' | 'always';
  readonly startMs: number;
  readonly stopMs: number;
  readonly restartMaxMs: number;
  readonly report?: (event: ManagedEvent) => void;
}

export type ManagedEvent =
  | { kind: 'started'; pid: number; path: string; version: string }
  | { kind: 'adopted'; pid: number; path: string }
  | { kind: 'died'; pid: number; againInMs: number }
  | { kind: 'failed'; message: string; againInMs: number }
  | { kind: 'killed'; pid: number };

// How often to look whether an adopted Redis, which is no child of ours, still runs.
const watchMs = 250;

/**
 * The Redis the daemon runs for itself when no other is configured. It belongs to its state directory, not to the
 * daemon: one that a crashed daemon left is adopted with all its data, a daemon that stops ends it in order, and one
 * that dies is started again (the connections of ioredis find it under the same path). Only an ephemeral one has no
 * life of its own: it writes nothing, and its guardian ends it with the daemon, however that ends.
 */
export class ManagedRedis implements Service {
  readonly name = 'managed redis';
  readonly path: string;
  readonly stateDir: string;
  readonly #options: ManagedRedisOptions;
  #lock: DirLock | undefined;
  #launch: LaunchOptions | undefined;
  #version = '';
  #process: ProcessIdentity | undefined;
  #watch: NodeJS.Timeout | undefined;
  #again: NodeJS.Timeout | undefined;
  #attempts = 0;
  #begun: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  #restarting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #made: string[] = [];

  constructor(options: ManagedRedisOptions) {
    this.#options = options;
    this.stateDir = resolve(options.stateDir);
    this.path = socketPath(this.stateDir);
  }

  /** Undefined while none runs. It changes when Redis had to be started again. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  start(): Promise<void> {
    this.#begun ??= this.#start();
    this.#starting ??= this.#begun.catch(async (error) => {
      await this.stop();
      throw error;
    });
    return this.#starting;
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #start(): Promise<void> {
    const { ephemeral, memoryBytes, appendFsync } = this.#options;
    const binary = await findServerBinary(this.#options.binary);
    this.#version = `${binary.product} ${binary.version}`;
    const dir = join(this.stateDir, ephemeral ? 'ephemeral' : 'redis');
    this.#hold(dir);
    this.#make(dirname(this.path));
    prepareSocketDir(this.path);
    this.#launch = {
      binary: binary.file,
      path: this.path,
      dir: realpathSync(dir),
      log: join(dir, 'redis.log'),
      memoryBytes,
      appendFsync,
      guard: ephemeral ? { removes: [...this.#made, dir, this.path, join(this.stateDir, 'redis.json')] } : undefined,
    };
    if (!(await this.#adopt(this.#launch))) await this.#run(this.#launch);
  }

  #hold(dir: string): void {
    try {
      this.#make(this.stateDir);
      this.#lock = DirLock.acquire(this.stateDir);
      this.#make(dir);
    } catch (error) {
      if (error instanceof DirHeldError) throw error; // It names the holder and what to do.
      throw new Error(
        `the state directory ${this.stateDir} cannot be used; choose another: ${(error as Error).message}`,
      );
    }
  }

  #make(dir: string): void {
    if (existsSync(dir)) return;
    makeDir(dir, 0o700);
    this.#made.push(dir);
  }

  /**
   * What a daemon before us left: true when it was adopted, false when the way is free. A Redis that is ours for sure
   * (pid, start time, directory) but not to be adopted is ended. Anything else on the socket is not ours to touch: it
   * may serve a daemon in another container that shares the directory, where pids tell nothing.
   */
  async #adopt(options: LaunchOptions): Promise<boolean> {
    const { path, dir } = options;
    const record = readRecord(this.stateDir);
    const since = performance.now();
    let answer = await askServer(path, 1000);
    // Alive, but loading its file, or not answering just now: it may be starting or busy.
    const unsettled = () => {
      const limitMs = typeof answer === 'object' && answer.loading ? this.#options.startMs : this.#options.stopMs;
      return (typeof answer !== 'object' || answer.loading) && performance.now() - since < limitMs;
    };
    while (record && isRunning(record) && unsettled() && !this.#stopping) {
      await wait(50);
      answer = await askServer(path, 1000);
    }
    const ours = record !== undefined && isRunning(record);
    if (answer === 'silent' && !ours) throw new Error(`something listens on ${path} but does not answer`);
    if (typeof answer === 'object') {
      if (!ours || answer.pid !== record.pid || record.dir !== answer.dir)
        throw new Error(
          `a Redis that this state directory does not know (pid ${answer.pid}) listens on ${path}; stop it or choose another directory`,
        );
      if (answer.runId === record.runId && answer.dir === dir && options.guard === undefined) {
        if (typeof (await askServer(path, 5000, runtimeSettings(options))) !== 'object')
          throw new Error(`the Redis left by an earlier daemon (pid ${record.pid}) did not take its settings`);
        this.#process = { pid: record.pid, started: record.started };
        this.#watch = setInterval(() => this.#look(), watchMs).unref();
        this.#report({ kind: 'adopted', pid: record.pid, path });
        return true;
      }
    }
    if (ours) await endProcess(record, this.#options.stopMs);
    return false;
  }

  async #run(options: LaunchOptions): Promise<void> {
    if (this.#stopping) throw new Error('stopped while starting');
    const child = launch(options);
    const identity = identityOfChild(child);
    const record = { ...identity, path: options.path, dir: options.dir };
    this.#process = identity;
    if (child.pid !== undefined) writeRecord(this.stateDir, record);
    try {
      const { runId } = await answers(child, options, this.#options.startMs);
      writeRecord(this.stateDir, { ...record, runId });
    } catch (error) {
      await endProcess(identity, this.#options.stopMs);
      this.#process = undefined;
      throw error;
    }
    this.#report({ kind: 'started', pid: identity.pid, path: options.path, version: this.#version });
    this.#supervise(child);
  }

  #supervise(child: ChildProcess): void {
    const since = performance.now();
    const ended = () => {
      // One that stayed up for a while earned a quick restart; one that dies at once is tried less and less often.
      if (performance.now() - since > 2 * this.#options.restartMaxMs) this.#attempts = 0;
      this.#died();
    };
    if (child.exitCode !== null || child.signalCode !== null) ended();
    else child.once('exit', ended);
  }

  #look(): void {
    if (this.#process && isRunning(this.#process)) return;
    clearInterval(this.#watch);
    this.#died();
  }

  #died(): void {
    const pid = this.#process?.pid ?? 0;
    this.#process = undefined;
    if (this.#stopping) return;
    this.#report({ kind: 'died', pid, againInMs: this.#schedule() });
  }

  #schedule(): number {
    const againInMs = Math.min(this.#options.restartMaxMs, 50 * 2 ** Math.min(this.#attempts++, 20));
    this.#again = setTimeout(() => {
      this.#restarting = this.#restart();
    }, againInMs);
    return againInMs;
  }

  async #restart(): Promise<void> {
    if (this.#stopping || !this.#launch) return;
    try {
      await this.#run(this.#launch);
    } catch (error) {
      if (this.#stopping) return;
      this.#report({ kind: 'failed', message: (error as Error).message, againInMs: this.#schedule() });
    }
  }

  async #stop(): Promise<void> {
    // One that is just starting is ended too. Its start then fails, and is waited for: it may have adopted meanwhile.
    await this.#end();
    await Promise.allSettled([this.#begun, this.#restarting]);
    await this.#end();
    if (!this.#lock) return;
    removeRecord(this.stateDir);
    rmSync(this.path, { force: true });
    if (dirname(this.path) !== this.stateDir) rmSync(dirname(this.path), { recursive: true, force: true });
    for (const path of this.#launch?.guard?.removes ?? []) rmSync(path, { recursive: true, force: true });
    this.#lock.release();
  }

  async #end(): Promise<void> {
    clearTimeout(this.#again);
    clearInterval(this.#watch);
    const target = this.#process;
    if (target && (await endProcess(target, this.#options.stopMs)) === 'killed')
      this.#report({ kind: 'killed', pid: target.pid });
    this.#process = undefined;
  }

  #report(event: ManagedEvent): void {
    this.#options.report?.(event);
  }
}
