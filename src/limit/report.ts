import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { MsOrZero } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { LimitName } from './model.js';

const args = ['caller', 'binding', 'name', 'ok', 'latencyMs', 'everyMs', 'samples'];
const script = lua(import.meta.url, './report.lua', args);

export const report = defineCommand({
  name: 'limit.report',
  about: 'Say how a call went: an adaptive limit follows, and one that tries after a pause has come through.',
  allowed: 'session',
  params: z.strictObject({ name: LimitName, ok: z.boolean(), latencyMs: MsOrZero }),
  result: z.object({}),
  fails: ['NOT_FOUND', 'SESSION_LOST'],
  run: async ({ name, ok, latencyMs }, { namespace, session, limits, config }) => {
    const { adaptEveryMs, adaptSamples } = config.limit;
    const given = [session.id, session.binding, name, ok ? 1 : 0, latencyMs, adaptEveryMs, adaptSamples];
    limits.look((await namespace.call<[string]>(script, given))[0]);
    return {};
  },
});
