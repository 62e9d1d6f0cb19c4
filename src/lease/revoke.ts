import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Reason } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { LeaseId, noSuchLease, splitLease } from './model.js';
import { endSession } from './session-close.js';

const lockScript = lua(import.meta.url, './revoke-lock.lua', ['id', 'reason']);
const onceScript = lua(import.meta.url, './revoke-once.lua', ['id', 'reason']);
const reservationScript = lua(import.meta.url, './revoke-reservation.lua', ['id', 'reason']);
const taskScript = lua(import.meta.url, './revoke-task.lua', ['id', 'reason']);

export const revoke = defineCommand({
  name: 'lease.revoke',
  about: 'Take a holding from its holder, or end a session, by the word of an operator.',
  allowed: 'session',
  params: z.strictObject({ lease: LeaseId, reason: Reason }),
  result: z.object({}),
  fails: ['NOT_FOUND'],
  run: async ({ lease, reason }, { namespace }) => {
    const { kind, id } = splitLease(lease);
    const why = JSON.stringify(reason);
    if (kind === 'task') await namespace.call(taskScript, [id, why]);
    else if (kind === 'lock') await namespace.call(lockScript, [id, reason]);
    else if (kind === 'reservation') await namespace.call(reservationScript, [id, why]);
    else if (kind === 'once') {
      if ((await namespace.call<string>(onceScript, [id, why])) !== '') throw noSuchLease(lease);
    } else if (kind !== 'session' || (await endSession(namespace, { id }, 'revoked', why)) === undefined)
      throw noSuchLease(lease);
    return {};
  },
});
