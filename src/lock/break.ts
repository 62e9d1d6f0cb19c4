import { z } from 'zod';
import { defineCommand } from '../protocol/command.js';
import { Holder, Reason } from '../protocol/primitives.js';
import { lua } from '../redis/script.js';
import { readLock } from './get.js';
import { Lock, LockName, taken } from './model.js';

const script = lua(import.meta.url, './break.lua', ['display', 'name', 'caller', 'agent', 'reason', 'ceiling']);

type Reply = [ceiling: string, more: number, victims: [string, string, string, string][], queues: number];

const breakLock = defineCommand({
  name: 'lock.break',
  about:
    'Take a lock from whoever holds it, by the word of an operator; who waits is next. Answers the lock as it is then.',
  allowed: 'session',
  params: z.strictObject({ name: LockName, reason: Reason }),
  result: Lock.extend({ broken: z.array(z.object({ holder: Holder, grant: z.string(), fence: z.int() })) }),
  fails: ['FORBIDDEN'],
  run: async ({ name, reason }, context) => {
    const { namespace, session, locks } = context;
    const { name: display, node } = taken(name);
    const broken = [];
    // Who gets the lock by this very break is above the ceiling of the first page and keeps it.
    for (let ceiling = '', more = 1; more === 1; ) {
      const args = [display, node, session.id, session.agent, reason, ceiling];
      const [top, left, victims, queues] = await namespace.call<Reply>(script, args);
      for (const [grant, id, agent, fence] of victims) {
        if (broken.length < 1000) broken.push({ holder: { session: id, agent }, grant, fence: Number(fence) });
      }
      if (queues === 1) locks.goOn();
      [ceiling, more] = [top, left];
    }
    return { ...(await readLock(name, context)), broken };
  },
});

export { breakLock as break };
