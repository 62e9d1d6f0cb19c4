import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { Json } from '../protocol/primitives.js';
import { Raw } from '../protocol/raw-json.js';
import { lua } from '../redis/script.js';

const script = lua(import.meta.url, './ping.lua');

export const ping = defineCommand({
  name: 'ping',
  about: "Answered after the session's renewal is in Redis: the proof a holder reckons with.",
  allowed: 'anyone',
  params: z.strictObject({ data: Json.optional() }),
  result: z.object({ data: z.unknown().optional(), serverAt: z.string(), epoch: z.string() }),
  fails: ['UNAVAILABLE', 'SESSION_LOST'],
  run: async ({ data }, { namespace, sessions, connection }) => {
    const { session } = connection;
    let at: number;
    let epoch: string;
    if (session) {
      const renewed = await sessions.prove(session);
      if (renewed.state !== 'renewed') throw new Refusal('SESSION_LOST');
      at = renewed.at;
      epoch = namespace.seenPosition.split(':')[0]!;
    } else {
      const [now, known] = await namespace.read<[string, string]>(script);
      at = Number(now);
      epoch = known;
    }
    const shown = data === undefined ? '' : `"data":${data},`;
    return new Raw(`{${shown}"serverAt":"${new Date(at).toISOString()}","epoch":"${epoch}"}`);
  },
});
