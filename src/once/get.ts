import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { lua } from '../redis/script.js';
import { Key, notFound, Record, type Row, recordText } from './model.js';

const script = lua(import.meta.url, './get.lua', ['key']);

export const get = defineCommand({
  name: 'once.get',
  about: 'What is known of a key.',
  allowed: 'watcher',
  params: z.strictObject({ key: Key }),
  result: Record,
  fails: ['NOT_FOUND'],
  run: async ({ key }, { namespace }) => {
    const row = await namespace.read<Row | ''>(script, [key]);
    if (row === '') throw notFound(key);
    return recordText(key, row);
  },
});
