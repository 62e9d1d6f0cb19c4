/**
 * Every key of the database, on one page: name, type, content, life time, who writes. Scripts build the same names
 * from the prefix (redis/lua/*.lua); test/redis/keys.test.ts holds a live database against this table.
 *
 * Client-chosen strings are data: they stand last in a key, or behind their length in bytes (`#`), so that no name can
 * leave its place (`a:b` + `c` is never `a` + `b:c`). The namespace is the hash tag: all keys of a namespace live in one
 * Cluster slot, and one script may touch all of them. Instants are milliseconds; `lease` means the lease clock (TIME
 * minus skew, see redis/lua/turn.lua), `time` means Redis' TIME.
 */
export const prefix = (namespace: string): string => `sb:{${namespace}}:`;

/** Outside any namespace. ZSET name → time of its first use. Written when a namespace is first named; never ends. */
export const namespacesKey = 'sb:namespaces';

/** Declared by every script and created by nobody: in a slot that migrates, a script then is refused whole (TRYAGAIN). */
export const neverKey = (namespace: string): string => `${prefix(namespace)}never`;
export const metaKey = (namespace: string): string => `${prefix(namespace)}meta`;
export const logKey = (namespace: string): string => `${prefix(namespace)}log`;

export interface KeyRow {
  readonly key: string;
  readonly type: 'hash' | 'string' | 'zset' | 'set' | 'stream' | 'list';
  readonly holds: string;
  readonly ends: string;
  readonly writer: string;
  /** The issue's domain that brings it; absent: the spine. */
  readonly since?: 'lock' | 'limit' | 'once' | 'backpressure' | 'later';
}

/** The page. `<q>` is a queue's name, `#q` its length in bytes; every key stands behind `sb:{<namespace>}:`. */
export const keyPage: readonly KeyRow[] = [
  // The log and what orders it
  {
    key: 'meta',
    type: 'hash',
    holds:
      'format, offset (head), epoch, replid, fence, skew, seen (last TIME), tail, bytes and second (side index), due (counter), clean (stop mark), graceUntil',
    ends: 'never',
    writer: 'every script (turn.lua)',
  },
  {
    key: 'log',
    type: 'stream',
    holds: 'one entry a script: id <last offset>-0; by, epoch, at, n, types, events',
    ends: 'trimmed by count, age, bytes',
    writer: 'turn.lua only',
  },
  {
    key: 'logIndex',
    type: 'zset',
    holds: '<offset>:<ms>:<bytes> by offset: the place of the log before each second',
    ends: 'with the log',
    writer: 'turn.lua, trim-log',
  },
  {
    key: 'epochs',
    type: 'zset',
    holds: 'epoch → its first offset',
    ends: 'when the whole epoch is trimmed (the last 64 stay)',
    writer: 'turn.lua, trim-log',
  },
  {
    key: 'published',
    type: 'hash',
    holds: '<#source>:<source><id> → position of the first',
    ends: 'log.publishWindowMs, 100,000 at most',
    writer: 'publish, forget-published',
  },
  {
    key: 'publishedAt',
    type: 'zset',
    holds: 'the same members by time',
    ends: 'with published',
    writer: 'publish, forget-published',
  },
  {
    key: 'ingress',
    type: 'hash',
    holds: 'daemon, fence, until (lease), heardAt of the one PUBLISH appender',
    ends: 'never',
    writer: 'ingress/lease, publish',
  },
  {
    key: 'daemons',
    type: 'zset',
    holds: 'daemon → last sign of life (lease)',
    ends: '10 s after the last sign',
    writer: 'sweeps/daemons',
  },
  // Sessions
  {
    key: 'sessions',
    type: 'zset',
    holds: 'session → deadline (lease). The deadline rules, not its removal',
    ends: 'session ended',
    writer: 'session-*, renew',
  },
  {
    key: 'session:<session>',
    type: 'hash',
    holds: 'agent, tenant, ttlMs, graceMs, key (hash), binding, daemon, labels, openedAt, ended, lastClose',
    ends: 'session ended and all given back',
    writer: 'session-*',
  },
  {
    key: 'held:<session>',
    type: 'zset',
    holds: 't<task>, l<grant>, r<reservation>, o<once key> by sinceAt',
    ends: 'when empty',
    writer: 'every script that gives or takes an ownership',
  },
  {
    key: 'ending',
    type: 'zset',
    holds: 'ended sessions with holdings still to give back, by the time they ended',
    ends: 'paged out by give-back',
    writer: 'session-*, give-back',
  },
  {
    key: 'grace',
    type: 'zset',
    holds: 'sessions without socket → when their work goes back (lease)',
    ends: 'resume, end or give-back',
    writer: 'session-*, give-back',
  },
  {
    key: 'leases',
    type: 'zset',
    holds: 'l<task> own lease, t<task> timeout, g<task> grace of a cancel → end (lease)',
    ends: 'with the attempt',
    writer: 'queue scripts',
  },
  // Tasks
  {
    key: 'task:<task>',
    type: 'string',
    holds: 'what was asked for: instants, queue, kind, tenant, priority, limits, key, payload (head.lua)',
    ends: 'removed (retention, purge)',
    writer: 'enqueue, update, redrive',
  },
  {
    key: 'run:<task>',
    type: 'string',
    holds:
      'what happened to it: state, fence, holder, attempt, result, history (run.lua); absent for a fresh ready task',
    ends: 'with the task',
    writer: 'queue scripts',
  },
  {
    key: 'timers',
    type: 'zset',
    holds: 's<task> startBy, d<task> deadline → instant (time)',
    ends: 'first claim, or finished',
    writer: 'queue scripts',
  },
  {
    key: 'wake',
    type: 'zset',
    holds: 'queue → when its earliest scheduled task is due (time); also the end of a pause',
    ends: 'when nothing is due',
    writer: 'queue scripts, promote',
  },
  // Queues
  {
    key: 'queues',
    type: 'zset',
    holds: 'names, score 0 (by lex)',
    ends: 'when the queue is empty, not paused and not configured',
    writer: 'enqueue, configure, pause, tidy-queues',
  },
  {
    key: 'queue:<q>',
    type: 'hash',
    holds: 'seq, vtime (time of the last start), paused, pausedUntil, and the configuration',
    ends: 'with the queue',
    writer: 'queue scripts',
  },
  { key: 'waiting:<q>', type: 'zset', holds: 'ready tasks by seq', ends: 'when empty', writer: 'queue scripts' },
  {
    key: 'blocked:<q>',
    type: 'zset',
    holds: 'tasks that wait for a need, key or quota, by seq',
    ends: 'when empty',
    writer: 'queue scripts',
    since: 'later',
  },
  {
    key: 'scheduled:<q>',
    type: 'zset',
    holds: '<counter, 16 digits><task> by due instant (time): equal instants keep their order',
    ends: 'when empty',
    writer: 'queue scripts',
  },
  {
    key: 'active:<q>',
    type: 'zset',
    holds: 'claimed tasks by start (time)',
    ends: 'when empty',
    writer: 'queue scripts',
  },
  {
    key: 'completed:<q>',
    type: 'zset',
    holds: 'completed tasks outside their key window, by end (time)',
    ends: 'kept by age and count',
    writer: 'complete, retention',
  },
  {
    key: 'windowed:<q>',
    type: 'zset',
    holds: 'completed tasks inside their key window, by the end of the window (time)',
    ends: 'moves to completed',
    writer: 'complete, retention',
  },
  {
    key: 'cancelled:<q>',
    type: 'zset',
    holds: 'cancelled tasks by end (time)',
    ends: 'kept like completed',
    writer: 'queue scripts, retention',
  },
  {
    key: 'dead:<q>',
    type: 'zset',
    holds: 'dead tasks by end (time)',
    ends: 'dead-letter retention',
    writer: 'queue scripts, retention',
  },
  {
    key: 'expired:<q>',
    type: 'zset',
    holds: 'expired tasks by end (time)',
    ends: 'dead-letter retention',
    writer: 'queue scripts, retention',
  },
  {
    key: 'keys:<q>',
    type: 'hash',
    holds: 'key → task',
    ends: 'key window over, or the task ended otherwise',
    writer: 'enqueue, finish, retention',
  },
  {
    key: 'lanes:<q>',
    type: 'zset',
    holds: 'kind (empty: none) → tasks not finished; its size is the number of kinds in use',
    ends: 'at 0',
    writer: 'queue scripts',
  },
  {
    key: 'tenants:<#q>:<q>:<kind>',
    type: 'zset',
    holds: 'tenants with ready tasks in the lane, by virtual time (never above the true one)',
    ends: 'when empty',
    writer: 'queue scripts',
  },
  {
    key: 'lane:<#q>:<#kind>:<q>:<kind>:<tenant>',
    type: 'zset',
    holds: 'ready tasks by (100 − priority)·2^46 + seq',
    ends: 'when empty',
    writer: 'queue scripts',
  },
  {
    key: 'vtime:<q>',
    type: 'zset',
    holds: 'tenant → its virtual time',
    ends: 'when no task is ready',
    writer: 'claim, enqueue',
  },
  {
    key: 'counts:<q>',
    type: 'hash',
    holds: 'w:<kind> a:<kind> waiting and active, b:<band> waiting by priority band, r<e|c|f>:<5 s slot> rates',
    ends: 'fields at 0; rates after 60 s',
    writer: 'queue scripts, tidy-queues',
  },
  { key: 'share:<q>', type: 'zset', holds: 'tenant → waiting tasks', ends: 'at 0', writer: 'queue scripts' },
  { key: 'busy:<q>', type: 'zset', holds: 'tenant → active tasks', ends: 'at 0', writer: 'queue scripts' },
  {
    key: 'slots:<#q>:<q>:<concurrency key>',
    type: 'set',
    holds: 'active tasks of a concurrency key (a set, so that it can be reconciled)',
    ends: 'when empty',
    writer: 'claim, finish, give back',
    since: 'later',
  },
  {
    key: 'waits:<what>',
    type: 'zset',
    holds: 'blocked tasks by what they wait on (key:, need:, quota:, parent:), by score',
    ends: 'when empty',
    writer: 'claim, unblock',
    since: 'later',
  },
  // Locks
  {
    key: 'lock:<name>',
    type: 'hash',
    holds: 'capacity, lockDelayMs, maxHoldMs, used, notBefore',
    ends: 'undefined, unheld and unwaited',
    writer: 'lock scripts',
    since: 'lock',
  },
  {
    key: 'grant:<grant>',
    type: 'string',
    holds: 'session, owner, [name, weight]…, state, ticket, fence, ends',
    ends: '60 s after release',
    writer: 'lock scripts',
    since: 'lock',
  },
  {
    key: 'lockWaits',
    type: 'zset',
    holds: '<name>\\0<ticket, 16 digits>\\0<grant>, score 0: FIFO of every lock by lex',
    ends: 'granted or ended',
    writer: 'lock scripts',
    since: 'lock',
  },
  {
    key: 'lockHolds',
    type: 'zset',
    holds: '<name>\\0<grant>, score 0',
    ends: 'released',
    writer: 'lock scripts',
    since: 'lock',
  },
  {
    key: 'lockPaths',
    type: 'zset',
    holds: 'held and waited path locks by lex, for ancestor and descendant search',
    ends: 'released',
    writer: 'lock scripts',
    since: 'lock',
  },
  {
    key: 'lockDue',
    type: 'zset',
    holds: 'wait deadlines, own leases, longest holds, ends of delay (lease)',
    ends: 'fired',
    writer: 'lock scripts',
    since: 'lock',
  },
  // Limits and the ledger
  {
    key: 'limit:<name>',
    type: 'hash',
    holds: 'definition, level and instant by dimension, blockedUntil, probe, virtual time',
    ends: 'undefined',
    writer: 'limit scripts',
    since: 'limit',
  },
  {
    key: 'limitWindow:<#name>:<name>:<dimension>',
    type: 'zset',
    holds: 'strict window: sub-bucket → amount',
    ends: 'window over',
    writer: 'limit scripts',
    since: 'limit',
  },
  {
    key: 'limitWaits:<name>',
    type: 'zset',
    holds: 'waiting reservations by virtual finish',
    ends: 'granted or ended',
    writer: 'limit scripts',
    since: 'limit',
  },
  {
    key: 'reservation:<reservation>',
    type: 'string',
    holds: 'limit, session, cost, state, fence, end',
    ends: 'settled, or its lease',
    writer: 'limit scripts',
    since: 'limit',
  },
  {
    key: 'limitDue',
    type: 'zset',
    holds: 'reservation ends, wait deadlines, next refill that frees a waiter',
    ends: 'fired',
    writer: 'limit scripts',
    since: 'limit',
  },
  {
    key: 'once:<key>',
    type: 'hash',
    holds: 'state, fingerprint, fence, holder, attempt names, leaseEndsAt, result',
    ends: 'keepMs',
    writer: 'once scripts',
    since: 'once',
  },
  {
    key: 'onceDue',
    type: 'zset',
    holds: 'key → end of its lease or of its keep',
    ends: 'fired',
    writer: 'once scripts',
    since: 'once',
  },
  {
    key: 'level:<q>',
    type: 'hash',
    holds: 'admission level, since when, utilisation side of the hysteresis',
    ends: 'with the queue',
    writer: 'enqueue, gauges',
    since: 'backpressure',
  },
];
