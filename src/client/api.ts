import type { Commands } from '../commands.js';
import type { Calls } from '../protocol/command.js';
import type { LimitCall } from './limit-options.js';
import type { LockCall } from './lock-options.js';
import type { OnceFace } from './once-options.js';

type All = Calls<Commands>;

/**
 * A typed call for every op of the registry, apart from those that are the client's own business: sessions, workers and
 * subscriptions are restored after a cut, which takes one hand on them.
 */
export type Domains = {
  readonly [Domain in Exclude<keyof All, 'session' | 'queue' | 'lock' | 'limit' | 'once' | 'feed'>]: All[Domain];
} & {
  readonly queue: Omit<All['queue'], 'work' | 'credit'>;
  /** `sb.lock(name, handler)` beside the plain calls. */
  readonly lock: All['lock'] & LockCall;
  /** `sb.limit(name, cost, handler)` beside the plain calls. */
  readonly limit: All['limit'] & LimitCall;
  /** `sb.once(key, payload, handler)` beside the plain calls. */
  readonly once: All['once'] & OnceFace;
  readonly feed: Omit<All['feed'], 'subscribe' | 'unsubscribe'>;
};

/** The domains by name, for making their faces; a domain that is missing here does not compile. */
export const domains = Object.keys({
  lease: true,
  queue: true,
  lock: true,
  limit: true,
  once: true,
  feed: true,
} satisfies Record<keyof Domains, true>);
