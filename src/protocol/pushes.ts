import { z } from 'zod';
import type { errors } from '../errors.js';

/**
 * Every line the daemon sends that answers no request, for the documents. Unknown fields are to be ignored by clients,
 * so that a newer daemon may say more.
 */
const position = z.string().meta({ description: '`epoch:offset`: everything up to there was handled.' });
const holding = {
  name: z.string(),
  grant: z.string().optional(),
  reservation: z.string().optional(),
  fence: z.int().optional(),
  reason: z.string(),
};

export function pushSchemas(task: z.ZodType, event: z.ZodType, codes: readonly (keyof typeof errors)[]) {
  const wireError = z.object({
    code: z.enum(codes as [string, ...string[]]),
    message: z.string(),
    retry: z.boolean(),
    path: z.string().optional(),
    afterMs: z.int().optional(),
    details: z.record(z.string(), z.unknown()).optional(),
  });
  const pushes = {
    hello: {
      about: 'The first line of every connection.',
      fields: {
        protocol: z.literal('signalbox.v1'),
        auth: z.enum(['none', 'required']),
        heartbeatMs: z.int(),
        limits: z.record(z.string(), z.int()),
      },
    },
    event: { about: 'An event that matches a subscription.', fields: { offset: z.int(), event } },
    position: { about: 'The cursor has moved on without a matching event, or into a new epoch.', fields: { position } },
    gap: {
      about: 'Something was lost here; it stands in place before the event after it.',
      fields: {
        from: position,
        to: position,
        lost: z.int().optional(),
        reason: z.enum(['trimmed', 'fork', 'reset']),
      },
    },
    heartbeat: {
      about: 'Nothing else was sent to a subscribed connection for a while.',
      fields: { at: z.string(), position, redis: z.enum(['up', 'down']) },
    },
    tasks: { about: 'Work for a worker of this connection.', fields: { worker: z.string(), tasks: z.array(task) } },
    revoked: {
      about: 'These tasks are no longer yours.',
      fields: { tasks: z.array(z.object({ task: z.string(), fence: z.int(), reason: z.string() })) },
    },
    cancel: {
      about: 'Stop this task, then fail or complete it; after the grace it is fenced out.',
      fields: { task: z.string(), fence: z.int(), reason: z.string(), graceMs: z.int() },
    },
    lost: { about: 'A session or another holding has ended.', fields: { kind: z.string(), ...holding } },
    granted: {
      about: 'What was waited for is yours.',
      fields: {
        grant: z.string().optional(),
        state: z.literal('held').optional(),
        reservation: z.string().optional(),
        name: z.string().optional(),
        fence: z.int(),
        validMs: z.int(),
        maxHoldMs: z.int().optional(),
        epoch: z.string().optional(),
        durability: z.string().optional(),
      },
    },
    waitEnded: {
      about: 'A wait has ended without a grant.',
      fields: {
        grant: z.string().optional(),
        reservation: z.string().optional(),
        reason: z.enum(['timeout', 'cancelled', 'sessionLost', 'neverFits']),
      },
    },
    drain: { about: 'This daemon stops; the connection is closed after that time.', fields: { afterMs: z.int() } },
    pressure: {
      about: 'A queue this connection enqueued to is under pressure, or no longer.',
      fields: { queue: z.string(), level: z.int().min(0).max(3), delayMs: z.int().optional() },
    },
    closed: {
      about: 'The line before the daemon closes the connection.',
      fields: { code: z.int(), reason: z.string(), afterMs: z.int().optional() },
    },
    error: { about: 'What was wrong with a line that had no usable id.', fields: { error: wireError } },
  };
  return { wireError, pushes };
}
