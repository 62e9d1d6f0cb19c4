import { z } from 'zod';
import { checkBytes } from '../protocol/bytes.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Json, Name, Reason } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { closed, Key, Record, type Row } from './model.js';

const script = lua(import.meta.url, './fail.lua', ['caller', 'binding', 'key', 'fence', 'outcome', 'fault', 'told']);

const Fault = z.strictObject({ message: Reason, code: Name.optional(), data: Json.optional() });

export const fail = defineCommand({
  name: 'once.fail',
  about: 'It failed: finally, in a way that may be tried again, or nobody knows how.',
  allowed: 'session',
  params: z.strictObject({
    key: Key,
    fence: Fence,
    outcome: z.enum(['final', 'retryable', 'unknown']),
    error: Fault.optional(),
  }),
  result: Record,
  fails: ['STALE_FENCE', 'NOT_FOUND', 'TOO_LARGE'],
  run: async ({ key, fence, outcome, error }, { namespace, session, config }) => {
    checkBytes('error.data', error?.data, config.queue.progressBytes);
    const [fault, told] = error ? texts(error) : ['', ''];
    const args = [session.id, session.binding, key, fence, outcome, fault, told];
    return closed(key, await namespace.call<[string, Row]>(script, args));
  },
});

/** As it is kept, and as events tell it: those carry no data of agents. */
function texts({ message, code, data }: z.output<typeof Fault>): [string, string] {
  const told = JSON.stringify({ message, code });
  return [data === undefined ? told : `${told.slice(0, -1)},"data":${data}}`, told];
}
