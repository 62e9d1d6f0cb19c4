import { hardDeath } from './f4-hard-death.js';
import { lostHistory } from './f8-lost-history.js';
import { deafReader } from './f11-deaf-reader.js';
import { redisOutage } from './f12-redis-outage.js';
import { silentLink } from './f14-silent-link.js';
import { slowSubscriber } from './f22-slow-subscriber.js';
import { stoppedReader } from './f26-stopped-reader.js';
import { runScenarios } from './run.js';

runScenarios({
  together: [silentLink, redisOutage, slowSubscriber],
  alone: [deafReader, hardDeath, lostHistory, stoppedReader],
});
