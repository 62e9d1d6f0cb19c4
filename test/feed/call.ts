import type { z } from 'zod';
import type { Context } from '../../src/context.js';
import type { FeedPort } from '../../src/feed/port.js';
import type { Command } from '../../src/protocol/command.js';
import { keepRawValues, Raw } from '../../src/protocol/raw-json.js';
import type { World } from './world.js';

/** What a client would send and get, without the socket between: the text is parsed, kept and checked as by the gateway. */
export async function call<P extends z.ZodObject, R extends z.ZodType>(
  world: World,
  feed: FeedPort | undefined,
  command: Command<string, P, R>,
  params: unknown,
): Promise<z.output<R>> {
  const text = typeof params === 'string' ? params : JSON.stringify(params);
  const frame = JSON.parse(`{"params":${text}}`) as { params: unknown };
  keepRawValues(`{"params":${text}}`, frame as Record<string, unknown>);
  const context = {
    namespace: world.namespace,
    served: true,
    config: world.config,
    connection: { feed },
    session: { id: 's', agent: 'tester' },
  } as unknown as Context;
  const reply = await command.run(command.params.parse(frame.params) as z.output<P>, context);
  return command.result.parse(reply instanceof Raw ? JSON.parse(reply.text) : reply);
}
