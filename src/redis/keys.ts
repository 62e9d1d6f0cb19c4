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

/**
 * The page, one key a line: key | type | what it holds | when it ends | who writes it [| the domain that brings it].
 * `<q>` is a queue's name, `#q` its length in bytes; every key stands behind `sb:{<namespace>}:`.
 */
const page = String.raw`
# The log and what orders it
meta | hash | format, offset (head), epoch, replid, fence, skew, seen (last TIME), tail, bytes and second (side index), due (counter), clean (stop mark: the fence it came after), graceUntil (lease) | never | every script (turn.lua)
log | stream | one entry a script: id <last offset>-0; by, epoch, at, n, types, events | trimmed by count, age, bytes | turn.lua only
logIndex | zset | <offset>:<ms>:<bytes> by offset: the place of the log before each second | with the log | turn.lua, trim-log
epochs | zset | epoch → its first offset | when the whole epoch is trimmed (the last 64 stay) | turn.lua, trim-log
published | hash | <#source>:<source><id> → position of the first | log.publishWindowMs, 100,000 at most | publish, forget-published
publishedAt | zset | the same members by time | with published | publish, forget-published
ingress | hash | of the one PUBLISH appender: daemon, fence, until (lease), mark and count (how far), heardAt | never | ingress/lease, append, release
daemons | zset | daemon → last sign of life (lease) | 10 s after the last sign | sweeps/daemons
# Sessions
sessions | zset | session → deadline (lease). The deadline rules, not its removal | session ended | session-*, renew
sessionNames | zset | sessions that have not ended, score 0 (by lex): an order that a listing can go on in | session ended | session-*
session:<session> | hash | agent, tenant, ttlMs, graceMs, key (hash), binding, daemon, labels, openedAt, ended, lastClose, away (no socket: its waits are passed over) | session ended and all given back | session-*
held:<session> | zset | t<task>, l<grant>, r<reservation>, o<once key> by sinceAt; locks that go with the socket 5e14 higher, what outlives it (locks that stay, once keys, waits) 1e15 | when empty | every script that gives or takes an ownership
ending | zset | ended sessions with holdings still to give back, by the time they ended | paged out by give-back | session-*, give-back
grace | zset | sessions without socket → when their work goes back (lease) | resume, end or give-back | session-*, give-back
leases | zset | l<task> own lease, t<task> timeout, g<task> grace of a cancel → end (lease) | with the attempt | queue scripts
# Tasks
task:<task> | string | what was asked for: instants, queue, kind, tenant, priority, limits, key, payload (record.lua) | removed (retention, purge) | enqueue, update, redrive
run:<task> | string | what happened to it: state, fence, holder, attempt, result, history (record.lua); absent for a fresh ready task | with the task | queue scripts
timers | zset | s<task> startBy, d<task> deadline → instant (time) | first claim, or finished | queue scripts
wake | zset | queue → when its earliest scheduled task is due (time); also the end of a pause | when nothing is due | queue scripts, promote
# Queues
queues | zset | names, score 0 (by lex) | when the queue is empty, not paused and not configured | enqueue, configure, pause, tidy-queue
queue:<q> | hash | seq, vtime (time of the last start), paused, pausedUntil, and the configuration | with the queue | queue scripts
waiting:<q> | zset | ready tasks by seq | when empty | queue scripts
blocked:<q> | zset | tasks that wait for a need, key or quota, by seq | when empty | queue scripts | later
scheduled:<q> | zset | <counter, 16 digits><task> by due instant (time): equal instants keep their order | when empty | queue scripts
active:<q> | zset | claimed tasks by start (time) | when empty | queue scripts
completed:<q> | zset | completed tasks outside their key window, by end (time) | kept by age and count | complete, retention
windowed:<q> | zset | completed tasks inside their key window, by the end of the window (time) | moves to completed | complete, retention
cancelled:<q> | zset | cancelled tasks by end (time) | kept like completed | queue scripts, retention
dead:<q> | zset | dead tasks by end (time) | dead-letter retention | queue scripts, retention
expired:<q> | zset | expired tasks by end (time) | dead-letter retention | queue scripts, retention
keys:<q> | hash | key → task | key window over, or the task ended otherwise | enqueue, finish, retention
lanes:<q> | zset | kind (empty: none) → tasks not finished; its size is the number of kinds in use | at 0 | queue scripts
tenants:<#q>:<q>:<kind> | zset | tenants with ready tasks in the lane, by virtual time (never above the true one) | when empty | queue scripts
lane:<#q>:<#kind>:<q>:<kind>:<tenant> | zset | ready tasks by (100 − priority)·2^46 + seq | when empty | queue scripts
vtime:<q> | zset | tenant → its virtual time | when no task is ready | claim, enqueue
counts:<q> | hash | w:<kind> a:<kind> waiting and active, b:<band> waiting by priority band, r<e|c|f>:<5 s slot> rates | fields at 0; rates after 60 s | queue scripts, tidy-queue
share:<q> | zset | tenant → waiting tasks | at 0 | queue scripts
busy:<q> | zset | tenant → active tasks | at 0 | queue scripts
slots:<#q>:<q>:<concurrency key> | set | active tasks of a concurrency key (a set, so that it can be reconciled) | when empty | claim, finish, give back | later
waits:<what> | zset | blocked tasks by what they wait on (key:, need:, quota:, parent:), by score | when empty | claim, unblock | later
# Locks
locks | zset | locks that are defined, held, waited for or delayed, score 0 (by lex) | undefined, unheld and unwaited | lock scripts | lock
lock:<node> | hash | capacity, lockDelayMs, maxHoldMs; held by class s x p u r w; queued, waits; notBefore, below (lease); fence, the last one | undefined, unheld and unwaited; its fence 60 s later | lock scripts | lock
grant:<grant> | string | session, agent, owner, what was asked for, nodes, state, ticket, fence (cmsgpack) | 60 s after its end | lock scripts | lock
lockWaits | zset | <node>\0<class>\0<ticket, 16 digits>\0<grant>, score 0: FIFO of every lock by lex; sessions without a socket stand aside | granted or ended | lock scripts | lock
lockHolds:<node> | zset | grants that hold it, by fence | when empty | lock scripts | lock
lockBelow:<node> | zset | grants that hold path locks below it, by fence | when empty | lock scripts | lock
lockDue | zset | w<grant> e<grant> h<grant> d<node> p<queue> g: waits, own leases, longest holds, delays, queues to go on with, the grace (lease) | fired | lock scripts, turn.lua | lock
# Limits and the ledger
limits | zset | names of limits, score 0 (by lex) | never | limit.define | limit
limit:<name> | hash | def: the definition; now: level or slices by dimension, reserved, waiting, pause and ramp (limit-dims.lua) | never | limit scripts | limit
limitWaits:<name> | zset | <ticket, 16 digits>\0<reservation> by virtual start | granted or ended | limit scripts | limit
limitFair:<name> | zset | agent → virtual end of its last ask | nobody waits | limit scripts | limit
reservation:<reservation> | string | limit, session, cost, state, fence; of an ended one how it ended | 60 s after its end | limit scripts | limit
limitDue | zset | e<reservation> lease, w<reservation> end of its wait (lease) | fired | limit scripts | limit
limitWake | zset | limit → when to look at it again: refill, end of a pause, gauge (time) | fired | limit scripts | limit
once:<key> | hash | state, fingerprint, fence, session, agent, attempt (name of the call), attempts, as, ended, leaseMs, keepMs, result, error | keepMs after it was in progress last | once scripts | once
onceDue | zset | key → end of its lease, else of its keep (lease) | fired | once scripts | once
admissions | zset | names of queues with admission, score 0 (by lex) | when it is switched off | configure, gauge | backpressure
level:<q> | hash | level of admission, why and at (since when); shed and rejected (how many were); d:<daemon> credit of its workers, its floor, why, when (lease) | when it is switched off | put.lua, gauge | backpressure
`;

export const keyPage: readonly KeyRow[] = page
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('# '))
  .map((line) => {
    const [key, type, holds, ends, writer, since] = line.split(' | ') as [
      string,
      KeyRow['type'],
      string,
      string,
      string,
      KeyRow['since'],
    ];
    return { key, type, holds, ends, writer, ...(since === undefined ? {} : { since }) };
  });
