import { z } from 'zod';
import { Admission, admissionText, checkAdmission, parseAdmission } from '../backpressure/admission.js';
import { defineCommand } from '../protocol/command.js';
import { Ms, MsOrZero, Queue } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { checkBackoff } from './items.js';
import { Backoff, backoffText, MaxAttempts, parseBackoff } from './model.js';

const script = lua(import.meta.url, './configure.lua', ['queue']);

const Count = z.int().min(0).max(1_000_000_000);
const Kept = z.strictObject({ ageMs: MsOrZero, count: Count });
const settings = {
  maxAttempts: MaxAttempts.optional(),
  backoff: Backoff.optional(),
  timeoutMs: Ms.optional(),
  leaseMs: Ms.optional(),
  keyWindowMs: MsOrZero.optional(),
  keep: z.strictObject({ completed: Kept, dead: Kept }).optional(),
  maxDepth: z.int().min(1).max(1_000_000_000).optional(),
  /** null switches it off again. */
  admission: Admission.nullable().optional(),
};

/** Order of the script's reply. */
type Text = string | null;
type Stored = [Text, Text, Text, Text, Text, Text, Text, Text];

export const configure = defineCommand({
  name: 'queue.configure',
  about: 'Set what holds for a queue; fields left out stay as they are.',
  allowed: 'session',
  params: z.strictObject({ queue: Queue, ...settings }),
  result: z.object({ queue: Queue, ...settings }),
  fails: ['INVALID'],
  run: async (params, { namespace, config }) => {
    const { queue, backoff, keep, admission } = params;
    if (admission) checkAdmission(admission);
    if (backoff) checkBackoff(backoff);
    const pairs: (string | number)[] = [];
    for (const name of ['maxAttempts', 'timeoutMs', 'leaseMs', 'keyWindowMs', 'maxDepth'] as const) {
      if (params[name] !== undefined) pairs.push(name, params[name]);
    }
    if (backoff) pairs.push('backoff', backoffText(backoff));
    if (keep)
      pairs.push('keep', [keep.completed.ageMs, keep.completed.count, keep.dead.ageMs, keep.dead.count].join(','));
    if (admission !== undefined) pairs.push('admission', admission === null ? '' : admissionText(admission));
    const [attempts, text, timeoutMs, leaseMs, window, kept, maxDepth, admitted] = await namespace.call<Stored>(
      script,
      [queue, ...pairs],
    );
    const { completedAgeMs, completedCount, deadAgeMs, deadCount } = config.queue;
    const [ageMs, count, deadMs, deads] = kept
      ? kept.split(',').map(Number)
      : [completedAgeMs, completedCount, deadAgeMs, deadCount];
    return {
      queue,
      maxAttempts: Number(attempts ?? 3),
      backoff: parseBackoff(text ?? 'exponential,1000,60000,full'),
      ...(timeoutMs ? { timeoutMs: Number(timeoutMs) } : {}),
      ...(leaseMs ? { leaseMs: Number(leaseMs) } : {}),
      keyWindowMs: Number(window ?? 3_600_000),
      keep: { completed: { ageMs: ageMs!, count: count! }, dead: { ageMs: deadMs!, count: deads! } },
      ...(maxDepth ? { maxDepth: Number(maxDepth) } : {}),
      ...(admitted ? { admission: parseAdmission(admitted) } : {}),
    };
  },
});
