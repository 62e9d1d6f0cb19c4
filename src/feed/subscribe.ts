import { z } from 'zod';
import { Refusal } from '../errors.js';
import { defineCommand } from '../protocol/command.js';
import { type Filter, Pattern } from '../protocol/filter.js';
import { formatPosition, type Position } from '../protocol/position.js';
import { NamespaceName } from '../protocol/primitives.js';
import type { Namespace } from '../redis/namespace.js';
import { toFilter } from './filter.js';
import { From, findPlace, isPosition, positionUnknown } from './place.js';
import type { FeedPort } from './port.js';

const Params = z.strictObject({
  types: z.array(Pattern).min(1).max(32),
  where: z.record(z.string().max(200), z.string().min(1).max(200)).optional(),
  from: From.default('new'),
  onGap: z.enum(['error', 'skip']).default('error'),
  namespace: NamespaceName.optional(),
});

interface Subscribed {
  subscription: string;
  from: string;
  head: string;
  missed: number;
}

/** What fixed the cursor: a subscription of the same message may repeat it. */
interface First {
  readonly message: number;
  readonly from: string;
  readonly head: Position;
}

/**
 * Where a cursor begins is asked of Redis, so subscriptions of one connection are run one after the other: the second
 * must know whether the first has made the cursor or was refused.
 */
const turns = new WeakMap<FeedPort, { last: Promise<unknown>; first?: First }>();

export const subscribe = defineCommand({
  name: 'feed.subscribe',
  about:
    'Get events as they happen, after a position if one is given. All subscriptions of a connection share a cursor.',
  allowed: 'watcher',
  params: Params,
  result: z.object({ subscription: z.string(), from: z.string(), head: z.string(), missed: z.int() }),
  fails: ['POSITION_LOST', 'BAD_POSITION', 'BAD_FILTER', 'LIMIT'],
  opens: ({ types, where, from, onGap }) => {
    toFilter(types, where);
    // A log that nobody has opened holds no position; going on from its beginning instead opens it.
    return !isPosition(from) || onGap === 'skip';
  },
  run: (params, { namespace, served, connection: { feed } }) => {
    if (!served) throw positionUnknown();
    const { message } = feed;
    const filter = toFilter(params.types, params.where);
    const turn = turns.get(feed) ?? { last: Promise.resolve() };
    turns.set(feed, turn);
    const run = async (): Promise<Subscribed> => {
      const asked = { message, from: JSON.stringify(params.from) };
      if (feed.position) return await widen(feed, namespace, filter, asked, turn.first);
      const { at, head, gap } = await findPlace(namespace, params.from, params.onGap);
      const subscription = feed.subscribe({ namespace: namespace.name, filter, at, ...(gap ? { gap } : {}) });
      turn.first = { ...asked, head };
      return reply(subscription, at, head);
    };
    const done = turn.last.then(run, run);
    turn.last = done;
    return done;
  },
});

/** There is a cursor: it goes on from where it is, and from now on looks for more. */
async function widen(
  feed: FeedPort,
  namespace: Namespace,
  filter: Filter,
  asked: Omit<First, 'head'>,
  first: First | undefined,
): Promise<Subscribed> {
  const beside = first?.message === asked.message && first.from === asked.from;
  if (!beside && asked.from !== '"new"') {
    throw new Refusal(
      'BAD_POSITION',
      'this connection has a cursor already; `from` may come with the first subscription only',
    );
  }
  // Beside the first, at once: after a wait the cursor might have moved on from where both are to begin.
  const head = beside ? first.head : (await findPlace(namespace, 'new', 'error')).head;
  const before = feed.position;
  const subscription = feed.subscribe({ namespace: namespace.name, filter, at: before ?? head });
  return reply(subscription, before ?? head, head);
}

function reply(subscription: string, from: Position, head: Position): Subscribed {
  const missed = Math.max(0, head.offset - from.offset);
  const top = from.offset > head.offset ? from : head;
  return { subscription, from: formatPosition(from), head: formatPosition(top), missed };
}
