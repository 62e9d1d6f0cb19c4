import type { JsonText } from '../protocol/primitives.js';

/** A head as stored under `task:<id>` (redis/lua/record.lua tells the fields); `members` is JSON without its braces. */
const headFields = 13;

/** Flat run as redis/lua/reading.lua gives it; '' for nothing. Indexes as in redis/lua/places.lua, less one. */
const run = {
  state: 0,
  fence: 1,
  session: 2,
  worker: 3,
  agent: 4,
  attempt: 5,
  refunds: 6,
  started: 8,
  ended: 16,
  result: 17,
  fault: 18,
  progress: 19,
  saved: 20,
  history: 21,
  due: 22,
} as const;

const quote = JSON.stringify;
const instant = (ms: string | number): string => `"${new Date(Number(ms)).toISOString()}"`;

function member(name: string, value: string): string {
  return value === '' ? '' : `,"${name}":${value}`;
}

/** attempt, fence, session, agent, started, ended, outcome, error, …: texts, '' for none. */
function historyRow([attempt, fence, session, agent, started, ended, outcome, fault]: readonly string[]): string {
  return (
    `{"attempt":${attempt},"fence":${fence},"holder":{"session":${quote(session)},"agent":${quote(agent)}}` +
    `,"startedAt":${instant(started!)},"endedAt":${instant(ended!)},"outcome":${quote(outcome)}${fault ? `,"error":${fault}` : ''}}`
  );
}

function historyText(row: readonly string[]): string {
  const stored = row[run.history] ? (JSON.parse(row[run.history]!) as string[][]) : [];
  const rows = stored.map(historyRow);
  // The attempt that completed is not stored twice: it is what the run itself says.
  if (row[run.state] === 'completed' && row[run.session]) {
    const { attempt, fence, session, agent, started, ended } = run;
    rows.push(historyRow([...[attempt, fence, session, agent, started, ended].map((at) => row[at]!), 'completed', '']));
  }
  return `[${rows.slice(-20).join(',')}]`;
}

function runMembers(row: readonly string[], whole: boolean): string {
  const at = (field: number): string => row[field] ?? '';
  const state = at(run.state);
  const held = state === 'active' || state === 'completed';
  // A queue.claim call is recorded under a name that begins with \0 and is nobody's.
  const worker = held && !at(run.worker).startsWith('\0') ? at(run.worker) : '';
  const holder = held && at(run.session) ? `{"session":${quote(at(run.session))},"agent":${quote(at(run.agent))}}` : '';
  return (
    member('fence', held ? at(run.fence) : '') +
    member('holder', holder) +
    member('worker', worker && quote(worker)) +
    member('runAt', at(run.due) && instant(at(run.due))) +
    member('startedAt', at(run.started) && instant(at(run.started))) +
    member('endedAt', at(run.ended) && instant(at(run.ended))) +
    member('error', state === 'completed' ? '' : at(run.fault)) +
    (whole
      ? member('progress', at(run.progress)) +
        member('saved', at(run.saved)) +
        member('result', at(run.result)) +
        member('history', historyText(row))
      : '')
  );
}

/**
 * The JSON text of a task for queue.get (`whole`) and for queue.list, whose `head` has no payload. `payload`,
 * `metadata`, `result` and the rest go in as the bytes that were stored.
 */
export function taskText(
  id: string,
  head: string,
  row: readonly string[] | '',
  queueAttempts: string,
  whole: boolean,
): JsonText {
  const [at, deadline, , queue, , tenant, priority, attempts, , , , key] = head.split('\0', headFields);
  const members = head.slice(nthZero(head, headFields) + 1);
  const fresh = row === '';
  const text =
    `{"task":${quote(id)},"queue":${quote(queue)},"state":${quote(fresh ? 'ready' : row[run.state])}` +
    `,"tenant":${quote(tenant)},"priority":${priority}` +
    member('key', key ? quote(key) : '') +
    `,"attempt":${fresh ? 0 : row[run.attempt]},"maxAttempts":${attempts || queueAttempts},"refunds":${fresh ? 0 : row[run.refunds]}` +
    (fresh ? (whole ? ',"history":[]' : '') : runMembers(row, whole)) +
    `,"enqueuedAt":${instant(at!)}` +
    member('deadlineAt', deadline ? instant(deadline) : '') +
    (members === '' ? '' : `,${members}`) +
    '}';
  return text as JsonText;
}

function nthZero(text: string, count: number): number {
  let at = -1;
  for (let i = 0; i < count; i++) at = text.indexOf('\0', at + 1);
  return at;
}
