import { z } from 'zod';
import { Refusal } from '../errors.js';
import { itemRefusal } from '../protocol/batch.js';
import { Holder, type JsonText, Name } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';

/**
 * The states of a key and the ways between them:
 *
 *     begin ──▶ inProgress ── finish ─────────────────▶ done (its result)
 *        ▲          │ ├────── fail final ─────────────▶ done (its error)
 *        │          │ └────── fail retryable ─────────▶ new
 *        │          └ fail unknown; lease or session over ▶ unknown
 *        └── new and unknown are handed to one caller, under a new fence
 *
 * Whatever is not in progress is forgotten `keepMs` after it came there.
 */
export const OnceState = z.enum(['new', 'inProgress', 'done', 'unknown']);
export type OnceState = z.infer<typeof OnceState>;

export const Key = Name;
/** What the call was made of, in few bytes (a hash): another fingerprint under the same key is MISMATCH. */
export const Fingerprint = Name;

const shown = {
  state: OnceState,
  fence: z.int().optional(),
  attempts: z.int(),
  holder: Holder.optional(),
  leaseEndsAt: z.string().optional(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
};

/** A record; `state` is what the next begin would answer, or inProgress. */
export const Record = z.object({
  key: z.string(),
  ...shown,
  fingerprint: z.string(),
  keptUntilAt: z.string().optional(),
});
export const Begun = z.object(shown);

/** Of redis/lua/once-record.lua. */
export type Row = [
  state: OnceState,
  attempts: string,
  fence: string,
  fingerprint: string,
  session: string,
  agent: string,
  leaseEndsAt: string,
  keptUntilAt: string,
  result: JsonText | '',
  error: JsonText | '',
];

const quote = JSON.stringify;
const member = (name: string, value: string): string => (value === '' ? '' : `,"${name}":${value}`);
const instant = (ms: string): string => (ms === '' ? '' : `"${new Date(Number(ms)).toISOString()}"`);

/** The members after `state`. A fence is shown to nobody but its holder, and where it is over. */
export function members(
  [state, attempts, fence, , session, agent, leaseEndsAt, , result, error]: Row,
  mine: boolean,
): string {
  const holder = session === '' ? '' : `{"session":${quote(session)},"agent":${quote(agent)}}`;
  return (
    `,"attempts":${attempts}` +
    member('fence', mine || state === 'done' ? fence : '') +
    member('holder', holder) +
    member('leaseEndsAt', instant(leaseEndsAt)) +
    member('result', state === 'done' ? result : '') +
    member('error', error)
  );
}

/** The JSON text of a record: result and error go in as the bytes that were stored. */
export function recordText(key: string, row: Row): Raw<z.infer<typeof Record>> {
  const head = `{"key":${quote(key)},"state":"${row[0]}","fingerprint":${quote(row[3])}`;
  return new Raw(`${head}${members(row, true)}${member('keptUntilAt', instant(row[7]))}}`);
}

/** What finish and fail answer: '' and the record, or a refusal. */
export function closed(key: string, [refusal, row]: [string, Row]): Raw<z.infer<typeof Record>> {
  if (refusal !== '') throw refusal === '!NOT_FOUND' ? notFound(key) : itemRefusal(refusal);
  return recordText(key, row);
}

export const notFound = (key: string): Refusal =>
  new Refusal('NOT_FOUND', `nothing is known of ${key}: it was never begun, or is past its keep`);
