import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { checkInvariants } from '../../src/ops/invariants.js';
import { judgeRecord, type OracleOptions, recordOf } from '../simulation/oracle.js';
import { Tap } from '../simulation/tap.js';
import { type Settings, startDaemon, type TestDaemon } from '../support/daemon.js';
import { type FaultProxy, startProxy } from '../support/proxy.js';
import { startRedis, type TestRedis } from '../support/redis.js';
import { type Any, type Wire, WireFailure } from '../support/wire.js';
import { check } from './scenario.js';

/** A Redis with an append-only file, its log read beside everybody, and daemons on it, each behind a link that can fail. */
export interface Stage {
  readonly redis: TestRedis;
  readonly admin: Redis;
  readonly tap: Tap;
  /** A daemon straight on Redis. */
  daemon(settings?: Settings): Promise<TestDaemon>;
  /** A daemon behind a link of its own. */
  behind(settings?: Settings): Promise<{ daemon: TestDaemon; link: FaultProxy }>;
}

/** Builds the stage, runs, and takes everything down whatever happened. */
export async function onStage<T>(run: (stage: Stage) => Promise<T>, redisArgs: readonly string[] = []): Promise<T> {
  const redis = await startRedis({ args: ['--appendonly', 'yes', ...redisArgs] });
  const admin = redis.client({ retryStrategy: () => 20, maxRetriesPerRequest: null });
  const tap = new Tap(admin, 'default');
  const ends: (() => Promise<unknown>)[] = [];
  const daemon = async (settings: Settings = {}, at = redis.path): Promise<TestDaemon> => {
    const started = await startDaemon(at, { 'ops.logLevel': 'error', ...settings });
    ends.push(() => {
      started.process.kill('SIGCONT');
      return started.kill();
    });
    return started;
  };
  try {
    tap.start();
    return await run({
      redis,
      admin,
      tap,
      daemon: (settings) => daemon(settings),
      behind: async (settings = {}) => {
        const link = await startProxy(redis.path);
        ends.push(() => link.close());
        return { daemon: await daemon(settings, `redis://127.0.0.1:${link.port}`), link };
      },
    });
  } finally {
    await tap.stop();
    for (const end of ends.reverse()) await end();
    await redis.stop();
  }
}

/** A watcher of everything, without a session. Its place is in `from`. */
export async function watchAll(daemon: TestDaemon, from: Any = 'new', types = ['>']): Promise<Wire & { from: string }> {
  const wire = (await daemon.wire()) as Wire & { from: string };
  wire.from = (await wire.call('feed.subscribe', { types, from })).from;
  return wire;
}

/** Holds what connections received one after the other, each resuming where the last one stood, against the log. */
export async function checkFeed(
  tap: Tap,
  watchers: readonly (Wire & { from: string })[],
  options: OracleOptions = {},
): Promise<number> {
  const record = watchers.flatMap((wire) => recordOf(wire.from, wire.lines));
  let verdict = judgeRecord(record, tap.epochs, options);
  for (let i = 0; i < 100 && verdict.problems.length > 0; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    await tap.poll();
    verdict = judgeRecord(
      watchers.flatMap((wire) => recordOf(wire.from, wire.lines)),
      tap.epochs,
      options,
    );
    if (!verdict.problems.every((problem) => problem.startsWith('the record ends'))) break;
  }
  check(verdict.problems.length === 0, `the record of a watcher: ${verdict.problems.slice(0, 5).join('; ')}`);
  return verdict.events;
}

/** Where a client stands after what it has received: what it would store. */
export function positionOf(wire: Wire & { from: string }): string {
  let position = wire.from;
  for (const { op, offset, position: told, to } of wire.lines) {
    if (op === 'event') position = `${position.slice(0, position.lastIndexOf(':'))}:${offset}`;
    else if (op === 'position' || op === 'heartbeat') position = told;
    else if (op === 'gap') position = to;
  }
  return position;
}

/** Design section 8 at the end of every scenario. */
export async function checkRest({ admin, tap }: Stage): Promise<void> {
  const { findings } = await checkInvariants(admin, 'default', { lateMs: 5000 });
  check(findings.length === 0, `at rest: ${findings.map(({ message }) => message).join('; ')}`);
  await tap.poll();
  const problems = [...tap.problems, ...tap.checkHead()];
  check(problems.length === 0, problems.join('; '));
}

export const refs = (tasks: readonly Any[]): Any[] => tasks.map(({ task, fence }) => ({ task, fence }));

/** Resident memory of a process, bytes. */
export function rssOf(pid: number): number {
  const found = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(found?.[1] ?? 0) * 1024;
}

/** Publishes one event under a name, again until it is acknowledged: however often that takes, it is one event. */
export async function publishOnce(wire: Wire, id: string, data: Any = {}): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await wire.call('feed.publish', { events: [{ type: 'x.y', id, source: '/test', data: { id, ...data } }] });
      return;
    } catch (error) {
      if (attempt === 200 || !(error instanceof WireFailure) || !error.error.retry) throw error;
      await sleep(25);
    }
  }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Events of the log so far, own ones of these types. */
export async function logged(tap: Tap, ...types: string[]): Promise<Any[]> {
  await tap.poll();
  return tap.standing.filter((event) => event.own && types.includes(event.type));
}
