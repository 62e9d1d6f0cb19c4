import { type RunHelpers, TestScheduler } from 'rxjs/testing';
import { expect } from 'vitest';
import { type LogBatch, LogEntry, type LogItem } from '../../src/redis/log-entry.js';

/** Marbles with vitest's comparison. */
export const marbles = (run: (helpers: RunHelpers) => void): void =>
  new TestScheduler((actual, expected) => expect(actual).toEqual(expected)).run(run);

/** One event of a script of ours: its type and data. */
export type Told = readonly [type: string, data: Readonly<Record<string, unknown>>];

/** An entry as the log has it, written by the daemon `by`. */
export function entry(by: string, ...events: Told[]): LogEntry {
  const text = events.map(([type, data]) => `${type}\t"subject"\t${JSON.stringify(data)}`).join('\n');
  return raw(
    by,
    events.map(([type]) => type),
    text,
    events.length,
  );
}

/** What a service published under a type of its own choice: it has the columns of published events. */
export function published(by: string, [type, data]: Told): LogEntry {
  return raw(by, [type], `${type}\t"subject"\t${JSON.stringify(data)}\t"id"\t"source"`, 1);
}

function raw(by: string, types: readonly string[], text: string, count: number): LogEntry {
  const fields = [
    'by',
    by,
    'epoch',
    'e',
    'at',
    '1000',
    'n',
    String(count),
    'types',
    [...new Set(types)].join(' '),
    'events',
    text,
  ];
  return new LogEntry('10-0', fields, '"/signalbox/t"');
}

export const batch = (...items: LogItem[]): LogBatch => items;
export const gap: LogItem = {
  kind: 'gap',
  reason: 'trimmed',
  from: { epoch: 'e', offset: 1 },
  to: { epoch: 'e', offset: 9 },
  lost: 8,
};
export const epoch: LogItem = { kind: 'epoch', position: { epoch: 'f', offset: 9 } };
