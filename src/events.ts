import { pressureEvents } from './backpressure/events.js';
import { ingressEvents } from './ingress/events.js';
import { sessionEvents } from './lease/events.js';
import { limitEvents } from './limit/events.js';
import { lockEvents } from './lock/events.js';
import { onceEvents } from './once/events.js';
import { taskEvents } from './queue/events.js';
import { logEvents } from './redis/events.js';

/** Every event of ours: its type and the schema of its `data`. A domain declares its own; this only joins them. */
export const events = {
  ...taskEvents,
  ...sessionEvents,
  ...lockEvents,
  ...limitEvents,
  ...onceEvents,
  ...pressureEvents,
  ...ingressEvents,
  ...logEvents,
};

export type EventType = keyof typeof events;
