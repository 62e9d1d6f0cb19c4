import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { NamespaceName } from '../protocol/primitives.js';

export const unsubscribe = defineCommand({
  name: 'feed.unsubscribe',
  about: 'End a subscription. With the last one the cursor of the connection ends.',
  allowed: 'watcher',
  params: z.strictObject({ subscription: z.string().min(1).max(200), namespace: NamespaceName.optional() }),
  result: z.object({}),
  fails: ['NOT_FOUND'],
  run: async ({ subscription }, { connection: { feed } }) => {
    if (!feed.unsubscribe(subscription)) throw new Refusal('NOT_FOUND', 'there is no such subscription');
    return {};
  },
});
