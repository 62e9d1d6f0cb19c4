/** What is held against what, and what to do when it does not hold. */
const advice = {
  counters: 'A counter is off; the sweep that recounts mends it. If it stays, report it with the log of that time.',
  lanes: 'A ready task may wait for ever. Purge it or update its priority, which puts it into its lane again.',
  lane: 'The task would never be claimed. `queue.update` with its own priority puts it into its lane again.',
  wake: 'Scheduled tasks of the queue would not come due. Enqueueing any task with a delay sets it again.',
  seq: 'New tasks would go ahead of older ones. Has the store been restored from two different moments?',
  record: 'The set names a task that is gone. Purge it by its id.',
  queue: 'The task stands in the set of another queue. Purge it by its id, and report it.',
  state: 'The task stands in a set of another state. Purge it by its id, and report it.',
  due: 'The task would come due at another time than it says. `queue.update` with its runAt mends it.',
  holder: 'Nobody would give the task back. `lease.revoke task:<id>` does.',
  held: 'Its session would not give the task back when it ends. `lease.revoke task:<id>` does.',
  clocks: 'A lease, a timeout or a cancel would not end the attempt. `lease.revoke task:<id>` does.',
  session: 'A session without its record. `lease.revoke session:<id>` ends it.',
  overdue: 'No daemon sweeps this namespace: is one running and connected to this Redis?',
  late: 'No daemon sweeps this namespace, or its sweeps fail: look at the log of the daemons.',
  stray: 'A clock without its attempt; it may end a later one too early. It goes when its time comes.',
  holding: 'The session is said to hold what it does not. It is dropped when the session ends.',
  reserved:
    'Capacity of the limit is lost or given twice. Define it anew under another name, and report it with the log of that time.',
  queued: 'Who waits for the limit may not be looked at. It is counted anew when its queue runs empty.',
  limitClock: 'Its lease or its wait would not end. `lease.revoke reservation:<id>` ends it.',
  published: 'Repeats of published events may be let through; ids are forgotten after log.publishWindowMs.',
  head: 'Something else has written to the stream or to its counters. Keep other programs away from sb: keys.',
  epoch: 'Something else has written to the stream or to its counters. Keep other programs away from sb: keys.',
  hole: 'Part of the log was cut by hand. Subscribers that stand before the hole are told of a gap.',
  count: 'An entry was not written by Signalbox. Keep other programs away from sb: keys.',
  orphan: 'Nothing leads to this key any more; it only takes memory. It may be deleted.',
  ttl: 'A key with a life time of its own vanishes without an event. Take it away with PERSIST.',
  page: 'The key is not ours, or of a newer version. Keep other programs away from sb: keys.',
} as const;

export type InvariantId = keyof typeof advice;

/** What only takes memory or mends itself is a warning; everything else breaks a promise. */
const mild: ReadonlySet<InvariantId> = new Set(['counters', 'holding', 'published', 'orphan', 'page', 'ttl']);

export const adviceFor = (id: InvariantId): string => advice[id];
export const levelOf = (id: InvariantId): 'warn' | 'error' => (mild.has(id) ? 'warn' : 'error');
