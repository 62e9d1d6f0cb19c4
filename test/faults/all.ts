import { sharedLimit } from './a1-shared-limit.js';
import { dyingAgents } from './a12-dying-agents.js';
import { poison } from './a14-poison.js';
import { overload } from './a25-overload.js';
import { crashingDaemons } from './crash-daemons.js';
import { hardDeath } from './f4-hard-death.js';
import { lostHistory } from './f8-lost-history.js';
import { deafReader } from './f11-deaf-reader.js';
import { redisOutage } from './f12-redis-outage.js';
import { silentLink } from './f14-silent-link.js';
import { slowSubscriber } from './f22-slow-subscriber.js';
import { stoppedReader } from './f26-stopped-reader.js';
import { hostileFrames } from './f27-hostile-frames.js';
import { deadWaiters } from './l18-dead-waiters.js';
import { closeCall } from './l19-close-call.js';
import { idleQueue } from './q1-idle-queue.js';
import { lostReplies } from './q3-lost-replies.js';
import { dyingStream } from './q4-dying-stream.js';
import { bigVerbs } from './q28-big-verbs.js';
import { leaks } from './q29-leaks.js';
import type { Case } from './scenario.js';

/** What users of comparable systems met; `npm run sim -- --full` runs them at their original lengths. */
export const scenarios: readonly Case[] = [
  idleQueue,
  lostReplies,
  dyingStream,
  bigVerbs,
  leaks,
  hardDeath,
  lostHistory,
  deafReader,
  redisOutage,
  silentLink,
  slowSubscriber,
  stoppedReader,
  hostileFrames,
  dyingAgents,
  poison,
  crashingDaemons,
  sharedLimit,
  deadWaiters,
  closeCall,
  overload,
];
