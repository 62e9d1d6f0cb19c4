import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isRunning, type ProcessIdentity } from '../lib/process-identity.js';

/**
 * What is known of the Redis of a state directory, kept in its `redis.json`: for the next daemon, which adopts that
 * Redis or ends it, and for everyone who looks for its socket (`signalbox redis-cli`).
 */
export interface ManagedRecord extends ProcessIdentity {
  readonly path: string;
  readonly dir: string;
  /** Absent in the moment between its start and its first answer. */
  readonly runId?: string;
}

const fileOf = (stateDir: string): string => join(resolve(stateDir), 'redis.json');

export function readRecord(stateDir: string): ManagedRecord | undefined {
  try {
    const record = JSON.parse(readFileSync(fileOf(stateDir), 'utf8')) as ManagedRecord;
    const { pid, started, path, dir } = record;
    return Number.isInteger(pid) && pid > 1 && [started, path, dir].every((text) => typeof text === 'string')
      ? record
      : undefined;
  } catch {
    return undefined;
  }
}

export function writeRecord(stateDir: string, record: ManagedRecord): void {
  const file = fileOf(stateDir);
  // By rename: a reader, or a daemon after a crash, finds the old or the new record, never half of one.
  writeFileSync(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

export function removeRecord(stateDir: string): void {
  rmSync(fileOf(stateDir), { force: true });
}

/** Socket and pid of the managed Redis that runs on a state directory, for other processes than its daemon. */
export function findManagedRedis(stateDir: string): { path: string; pid: number } | undefined {
  const record = readRecord(stateDir);
  return record && isRunning(record) ? { path: record.path, pid: record.pid } : undefined;
}
