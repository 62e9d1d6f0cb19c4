import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { lua } from '../redis/script.js';
import { Limit, LimitName, type LimitRow, limitOf } from './model.js';

const script = lua(import.meta.url, './get.lua', ['name']);

export const get = defineCommand({
  name: 'limit.get',
  about: 'Show one limit: its definition, what is used and reserved of it, who waits, and until when it is blocked.',
  allowed: 'watcher',
  params: z.strictObject({ name: LimitName }),
  result: Limit,
  fails: ['NOT_FOUND'],
  run: async ({ name }, { namespace }) => {
    const row = await namespace.read<LimitRow | ''>(script, [name]);
    if (row === '') throw new Refusal('NOT_FOUND', `there is no limit ${name}`);
    return limitOf(row);
  },
});
