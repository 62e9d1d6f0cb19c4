import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { lua } from '../redis/script.js';
import { checkDefinition, Definition, definition, definitionText, LimitName, modeOf } from './model.js';

const script = lua(import.meta.url, './define.lua', ['name', 'text', 'change', 'adapted', 'least', 'most', 'targetMs']);

export const define = defineCommand({
  name: 'limit.define',
  about: 'Say what a limit is; other values than now need change:true, and what is used of it stays used.',
  allowed: 'session',
  params: z.strictObject({ name: LimitName, ...definition, change: z.boolean().default(false) }),
  result: Definition,
  fails: ['INVALID', 'CONFLICT'],
  run: async ({ name, change, ...wanted }, { namespace, limits }) => {
    checkDefinition(wanted);
    const { kind, dimensions, adaptive } = wanted;
    const text = definitionText(wanted);
    const rows = Object.entries(dimensions).flatMap(([dimension, { amount, perMs, burst }]) => {
      const mode = modeOf(kind, perMs);
      return [dimension, mode, amount, perMs ?? '', mode === 'bucket' ? (burst ?? amount) : ''];
    });
    const adapts = [adaptive?.dimension ?? '', adaptive?.min ?? '', adaptive?.max ?? '', adaptive?.targetMs ?? ''];
    const [soonest] = await namespace.call<[string]>(script, [name, text, change ? 1 : 0, ...adapts, ...rows]);
    limits.look(soonest);
    return { name, ...JSON.parse(text) };
  },
});
