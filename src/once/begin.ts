import { z } from 'zod';
import { newId } from '../lib/ids.js';
import { itemRefusal } from '../protocol/batch.js';
import { defineCommand } from '../protocol/command.js';
import { Ms, Name } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { lua } from '../redis/script.js';
import { Begun, Fingerprint, Key, members, type Row } from './model.js';

const script = lua(import.meta.url, './begin.lua', [
  'caller',
  'binding',
  'key',
  'fingerprint',
  'attempt',
  'leaseMs',
  'keepMs',
]);

export const begin = defineCommand({
  name: 'once.begin',
  about: 'Ask to do what must not be done twice: one caller is handed the key, all others hear what became of it.',
  allowed: 'session',
  params: z.strictObject({
    key: Key,
    fingerprint: Fingerprint,
    attempt: Name.optional(),
    leaseMs: Ms.default(60_000),
    keepMs: Ms.default(86_400_000),
  }),
  result: Begun,
  fails: ['MISMATCH', 'SESSION_LOST'],
  run: async ({ key, fingerprint, attempt = newId(), leaseMs, keepMs }, { namespace, session }) => {
    const args = [session.id, session.binding, key, fingerprint, attempt, leaseMs, keepMs];
    const [word, row] = await namespace.call<[string, Row]>(script, args);
    if (word.startsWith('!')) throw itemRefusal(word);
    return new Raw(`{"state":"${word}"${members(row, word === 'new' || word === 'unknown')}}`);
  },
});
