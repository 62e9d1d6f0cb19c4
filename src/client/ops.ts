import { newId } from '../lib/ids.js';

/**
 * What may be sent twice. Reads may; a write may if it names what it makes or carries the fence it acts under, so that
 * the second one finds the first one's work. What is not in here is not repeated after a cut: its caller is told that
 * it may have happened. `queue.claim` is out because two claims take two tasks; `lease.revoke` and `lock.break` because
 * the second could hit the next holder; `queue.purge` and `queue.redrive` because meanwhile there is more to take.
 */
const repeatable = new Set([
  'ping',
  'lease.list',
  'lease.renew',
  ...['configure', 'enqueue', 'complete', 'fail', 'release', 'progress', 'cancel', 'update'].map(
    (verb) => `queue.${verb}`,
  ),
  ...['get', 'list', 'result', 'stats', 'pause', 'unpause'].map((verb) => `queue.${verb}`),
  ...['define', 'acquire', 'release', 'check', 'get', 'list'].map((verb) => `lock.${verb}`),
  ...['define', 'reserve', 'settle', 'get', 'list'].map((verb) => `limit.${verb}`),
  ...['begin', 'finish', 'fail', 'get'].map((verb) => `once.${verb}`),
  'feed.read',
  'feed.publish',
]);

/** What ends or keeps an ownership does not wait behind bulk work. */
const control = new Set([
  ...['complete', 'fail', 'release', 'progress', 'work', 'credit', 'cancel'].map((verb) => `queue.${verb}`),
  ...['renew', 'revoke'].map((verb) => `lease.${verb}`),
  ...['release', 'break'].map((verb) => `lock.${verb}`),
  'limit.settle',
  'once.finish',
  'once.fail',
]);

/** These belong to the client itself: a second hand on them would make its books wrong. */
export const instead: Readonly<Record<string, string>> = {
  'session.open': 'connect()',
  'session.close': 'close()',
  'queue.work': 'work()',
  'queue.credit': 'pool.scale()',
  'feed.subscribe': 'subscribe()',
  'feed.unsubscribe': 'subscription.close()',
};

export const isRepeatable = (op: string): boolean => repeatable.has(op);
export const laneOf = (op: string): 'control' | 'bulk' => (control.has(op) ? 'control' : 'bulk');

type Params = Record<string, unknown>;

/** An option that is there but undefined is one that was left out: it must not stand in the way of the one we choose. */
export function named<Item extends object>(name: keyof Item & string, item: Item): Item {
  return item[name] === undefined ? { ...item, [name]: newId() } : item;
}

const withName =
  (name: string) =>
  (item: Params): Params =>
    named(name, item);

/** Fills in the names that make an op repeatable, where the caller has not chosen them. */
export function withIds(op: string, params: Params): Params {
  switch (op) {
    case 'queue.enqueue':
      return { ...params, tasks: list(params.tasks).map(withName('task')) };
    case 'queue.complete':
      if (!params.enqueue) return params;
      return { ...params, enqueue: list(params.enqueue).map((each) => withIds('queue.enqueue', each)) };
    case 'feed.publish':
      return { ...params, events: list(params.events).map(withName('id')) };
    case 'lock.acquire':
      return named('grant', params);
    case 'limit.reserve':
      return named('reservation', params);
    case 'once.begin':
      return named('attempt', params);
    default:
      return params;
  }
}

/** Anything but an array goes to the daemon as it is, which will refuse it with a path. */
const list = (value: unknown): Params[] => (Array.isArray(value) ? value : []);
