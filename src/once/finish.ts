import { z } from 'zod';
import { checkBytes } from '../protocol/bytes.js';
import { defineCommand } from '../protocol/command.js';
import { Fence, Json } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { closed, Key, Record, type Row } from './model.js';

const script = lua(import.meta.url, './finish.lua', ['caller', 'binding', 'key', 'fence', 'result']);

export const finish = defineCommand({
  name: 'once.finish',
  about: 'It is done: keep the result for whoever begins again.',
  allowed: 'session',
  params: z.strictObject({ key: Key, fence: Fence, result: Json.optional() }),
  result: Record,
  fails: ['STALE_FENCE', 'NOT_FOUND', 'TOO_LARGE'],
  run: async ({ key, fence, result }, { namespace, session, config }) => {
    checkBytes('result', result, config.queue.resultBytes);
    const args = [session.id, session.binding, key, fence, result ?? 'null'];
    return closed(key, await namespace.call<[string, Row]>(script, args));
  },
});
